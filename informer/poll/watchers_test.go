package poll_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

func TestWatchersShareOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1}))
		one, two := watch(t, t.Context(), p, 0), watch(t, t.Context(), p, 0)
		assert.Equal(t, 1, b.got())
		looptest.TakeAll(one)
		looptest.TakeAll(two)
		for rev := range 100 {
			b.set(nil, site{Name: "a", Rev: rev})
			if rev%2 == 0 {
				p.Nudge()
			} else {
				time.Sleep(time.Second)
			}
			want := looptest.TakeAll(one)
			require.Len(t, want, 1)
			assert.Equal(t, want, looptest.TakeAll(two))
			assert.Equal(t, 1, b.got())
		}
		b.set(errOutage)
		time.Sleep(time.Minute)
		assert.Equal(t, 60, b.got(), "even if they fail")
	})
}

func TestNudgeSurvivesItsWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: -1}))
		b.gate = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		p.Nudge()
		polling := watch(t, t.Context(), p, 0) // takes the nudge
		synctest.Wait()
		leaving := watch(t, ctx, p, 0) // takes the next
		p.Nudge()
		synctest.Wait()
		cancel()
		assert.Equal(t, []string{"context canceled"}, looptest.TakeAll(leaving))
		close(b.gate)
		assert.Len(t, looptest.TakeAll(polling), 2)
		assert.Equal(t, 2, b.got())
	})
}

func TestWatcherReportsChangesFoundByAnotherBeforePolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := table{gate: make(chan struct{})}
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: -1}))
		one, two := watch(t, t.Context(), p, 0), watch(t, t.Context(), p, 0)
		p.Nudge()
		synctest.Wait() // one of them polls
		p.Nudge()
		synctest.Wait() // the other wants to
		b.set(nil, site{Name: "a", Rev: 1})
		b.gate <- struct{}{}
		synctest.Wait()
		b.set(nil, site{Name: "a", Rev: 2})
		b.gate <- struct{}{}
		assert.Equal(t, []string{"1 Added a.1", "2 Modified a.2"}, looptest.TakeAll(one))
		assert.Equal(t, []string{"1 Added a.1", "2 Modified a.2"}, looptest.TakeAll(two))
	})
}

func TestWatchFromUnknownVersionExpires(t *testing.T) {
	const expired = "poll: watch: version is no longer in the history of the source"
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, regular))
		assert.Equal(t, []string{expired}, looptest.TakeAll(watch(t, t.Context(), p, 1)))
		for rev := range 3 {
			b.set(nil, site{Name: "a", Rev: rev}, site{Name: "b", Rev: rev})
			_, err := p.List(t.Context())
			require.NoError(t, err)
		}
		for after, want := range []string{4: "5 Modified a.2", 5: "6 Modified b.2", 3: expired, 7: expired} {
			if want != "" {
				assert.Equal(t, want, looptest.TakeAll(watch(t, t.Context(), p, informer.Version(after)))[0], "after %d", after)
			}
		}
	})
}

func TestSourceAndInformersConverge(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var b table
			p := must(poll.New(b.list, nameOf, poll.Config[site]{}))
			var informers []*informer.Informer[string, site]
			var recorders []*recorder
			for range 3 {
				in := must(informer.New(p, nameOf, informer.Config{OnError: func(error) {}}))
				recorders = append(recorders, record(t, in))
				start(t, in)
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
						assert.Equal(t, present, maps.Collect(in.All()))
						assert.Equal(t, present, recorders[i].state())
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
				require.NoError(t, err)
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
					watch(t, ctx, p, 0)
				}
				synctest.Wait()
				staying := watch(t, t.Context(), p, 0)
				synctest.Wait()
				hang = false
				cancel()
				assert.Equal(t, []string{"1 Added a.0"}, looptest.TakeAll(staying))
				assert.Equal(t, 2, b.got(), "one after the first")
			})
		}
	}
}
