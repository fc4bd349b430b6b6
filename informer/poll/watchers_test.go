package poll_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/informer/poll"
)

func TestWatchersShareOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, OnError: func(error) {}}))
		one, two := sitetest.Watch(t, t.Context(), p, 0), sitetest.Watch(t, t.Context(), p, 0)
		if got := b.got(); got != 1 {
			t.Errorf("b.got() = %v, want 1", got)
		}
		sitetest.All(one)
		sitetest.All(two)
		for rev := range 100 {
			b.set(nil, site{Name: "a", Rev: rev})
			if rev%2 == 0 {
				p.Nudge()
			} else {
				time.Sleep(time.Second)
			}
			want := sitetest.All(one)
			if len(want) != 1 {
				t.Fatalf("len(want) = %d, want 1: %v", len(want), want)
			}
			if diff := cmp.Diff(want, sitetest.All(two)); diff != "" {
				t.Errorf("sitetest.All(two) mismatch (-want +got):\n%s", diff)
			}
			if got := b.got(); got != 1 {
				t.Errorf("b.got() = %v, want 1", got)
			}
		}
		b.set(errOutage)
		time.Sleep(time.Minute)
		if got := b.got(); got != 60 {
			t.Errorf("even if they fail: b.got() = %v, want 60", got)
		}
	})
}

func TestNudgeSurvivesItsWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: -1}))
		b.gate = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		p.Nudge()
		polling := sitetest.Watch(t, t.Context(), p, 0) // takes the nudge
		synctest.Wait()
		leaving := sitetest.Watch(t, ctx, p, 0) // takes the next
		p.Nudge()
		synctest.Wait()
		cancel()
		if got, want := sitetest.All(leaving), ([]string{"context canceled"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(leaving) = %q, want %q", got, want)
		}
		close(b.gate)
		if got := sitetest.All(polling); len(got) != 2 {
			t.Errorf("len(sitetest.All(polling)) = %d, want 2: %v", len(got), got)
		}
		if got := b.got(); got != 2 {
			t.Errorf("b.got() = %v, want 2", got)
		}
	})
}

func TestWatcherReportsChangesFoundByAnotherBeforePolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := table{gate: make(chan struct{})}
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: -1}))
		one, two := sitetest.Watch(t, t.Context(), p, 0), sitetest.Watch(t, t.Context(), p, 0)
		p.Nudge()
		synctest.Wait() // one of them polls
		p.Nudge()
		synctest.Wait() // the other wants to
		b.set(nil, site{Name: "a", Rev: 1})
		b.gate <- struct{}{}
		synctest.Wait()
		b.set(nil, site{Name: "a", Rev: 2})
		b.gate <- struct{}{}
		if got, want := sitetest.All(one), ([]string{"1 Added a.1", "2 Modified a.2"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(one) = %q, want %q", got, want)
		}
		if got, want := sitetest.All(two), ([]string{"1 Added a.1", "2 Modified a.2"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(two) = %q, want %q", got, want)
		}
	})
}

func TestWatchFromUnknownVersionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, regular))
		if got, want := sitetest.All(sitetest.Watch(t, t.Context(), p, 1)), ([]string{informer.ErrExpired.Error()}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(sitetest.Watch(t, ctx, p, 1)) = %q, want %q", got, want)
		}
		for rev := range 3 {
			b.set(nil, site{Name: "a", Rev: rev}, site{Name: "b", Rev: rev})
			_, err := p.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
		}
		for after, want := range []string{4: "5 Modified a.2", 5: "6 Modified b.2", 3: informer.ErrExpired.Error(), 7: informer.ErrExpired.Error()} {
			if want != "" {
				if got := sitetest.All(sitetest.Watch(t, t.Context(), p, informer.Version(after)))[0]; got != want {
					t.Errorf("after %d: sitetest.All(sitetest.Watch(t, ctx, p, informer.Version(after)))[0] = %q, want %q", after, got, want)
				}
			}
		}
	})
}

func TestSourceAndInformersConverge(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var b table
			p := must(poll.New(b.list, nameOf, poll.Config[site]{OnError: func(error) {}}))
			var informers []*informer.Informer[string, site]
			var recorders []*recorder
			for range 3 {
				in := must(informer.New(p, nameOf, informer.Config{OnError: func(error) {}}))
				recorders = append(recorders, record(t, in))
				sitetest.Start(t, in)
				informers = append(informers, in)
			}
			present := map[string]site{}
			for rev := range 100 {
				for range rnd.IntN(4) {
					name := fmt.Sprint(rnd.IntN(6))
					if delete(present, name); rnd.IntN(3) > 0 {
						present[name] = site{Name: name, Rev: rev}
					}
				}
				var items []site
				for _, s := range present {
					items = append(items, s)
				}
				b.set([]error{nil, nil, errOutage}[rnd.IntN(3)], items...)
				switch rnd.IntN(3) {
				case 0:
					p.Nudge()
				case 1:
					_, _ = p.List(t.Context())
				}
				time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
				if rev%10 == 9 {
					b.set(nil, items...)
					time.Sleep(2 * time.Minute)
					for i, in := range informers {
						if diff := cmp.Diff(present, maps.Collect(in.All())); diff != "" {
							t.Errorf("maps.Collect(in.All()) mismatch (-want +got):\n%s", diff)
						}
						if diff := cmp.Diff(present, recorders[i].state()); diff != "" {
							t.Errorf("recorders[i].state() mismatch (-want +got):\n%s", diff)
						}
					}
				}
			}
		})
	}
}

// A poll that is cut short because its caller leaves has shown the others nothing.
func TestPollCutShortIsDoneByAnother(t *testing.T) {
	for _, interval := range []time.Duration{-1, time.Minute} { // a nudge, or a poll that is due
		for _, lists := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var b table
				hang := false
				list := func(ctx context.Context) ([]site, error) {
					if hang {
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
					return b.list(ctx)
				}
				p := must(poll.New(list, nameOf, poll.Config[site]{Interval: interval, Jitter: -1}))
				_, err := p.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				b.set(nil, site{Name: "a"})
				hang = true
				ctx, cancel := context.WithCancel(t.Context())
				if interval < 0 {
					p.Nudge()
				} else {
					time.Sleep(interval)
				}
				if lists {
					go func() { _, _ = p.List(ctx) }() // ends with ctx
				} else {
					sitetest.Watch(t, ctx, p, 0)
				}
				synctest.Wait()
				staying := sitetest.Watch(t, t.Context(), p, 0)
				synctest.Wait()
				hang = false
				cancel()
				if got, want := sitetest.All(staying), ([]string{"1 Added a.0"}); !slices.Equal(got, want) {
					t.Errorf("sitetest.All(staying) = %q, want %q", got, want)
				}
				if got := b.got(); got != 2 {
					t.Errorf("one after the first: b.got() = %v, want 2", got)
				}
			})
		}
	}
}
