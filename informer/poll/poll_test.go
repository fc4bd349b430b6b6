package poll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/wait"
)

// table is something that can only be listed.
type table struct {
	mu    sync.Mutex
	items []site
	err   error
	polls int
	gate  chan struct{} // each list waits for a token; nil is open
}

func (b *table) list(context.Context) ([]site, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls++
	if gate := b.gate; gate != nil {
		b.mu.Unlock()
		<-gate
		b.mu.Lock()
	}
	return slices.Clone(b.items), b.err
}

func (b *table) set(err error, items ...site) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items, b.err = items, err
}

// got returns the number of polls since the last got, once every goroutine of the bubble is blocked.
func (b *table) got() int {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	polls := b.polls
	b.polls = 0
	return polls
}

// regular polls without jitter.
var regular = poll.Config[site]{Jitter: -1}

func TestPollDetectsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, regular))
		b.set(nil, site{Name: "c"}, site{Name: "a"}, site{Name: "b"}, site{Name: "d"})
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := ([]site{{Name: "c"}, {Name: "a"}, {Name: "b"}, {Name: "d"}}); !slices.Equal(list.Items, want) {
			t.Errorf("list.Items = %v, want %v", list.Items, want)
		}
		if list.Version != informer.Version(4) {
			t.Errorf("list.Version = %v, want %v", list.Version, informer.Version(4))
		}

		events := sitetest.Watch(t, t.Context(), p, list.Version)
		time.Sleep(time.Second - 1)
		if got := b.got(); got != 1 {
			t.Errorf("b.got() = %v, want 1", got)
		}
		b.set(nil, site{Name: "e"}, site{Name: "b", Rev: 1}, site{Name: "d"})
		time.Sleep(time.Nanosecond)
		if diff := cmp.Diff([]string{"5 Added e.0", "6 Modified b.1", "7 Deleted c.0", "8 Deleted a.0"}, sitetest.All(events)); diff != "" {
			t.Errorf("sitetest.All(events) mismatch (-want +got):\n%s", diff)
		}
		time.Sleep(time.Second)
		if got, want := sitetest.All(events), ([]string{"8 Bookmark .0"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(events) = %q, want %q", got, want)
		}
		b.set(nil)
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"9 Deleted b.1", "10 Deleted d.0", "11 Deleted e.0"}, sitetest.All(events)); diff != "" {
			t.Errorf("in the order in which they came: sitetest.All(events) mismatch (-want +got):\n%s", diff)
		}
		if got := b.got(); got != 3 {
			t.Errorf("b.got() = %v, want 3", got)
		}
	})
}

func TestPollFromZeroNeedsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		b.set(nil, site{Name: "a"})
		p := must(poll.New(b.list, nameOf, regular))
		if got, want := sitetest.All(sitetest.Watch(t, t.Context(), p, 0)), ([]string{"1 Added a.0"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(sitetest.Watch(t, ctx, p, 0)) = %q, want %q", got, want)
		}
	})
}

func TestPollIntervalHasJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: time.Minute, Jitter: 0.5}))
		events := sitetest.Watch(t, t.Context(), p, 0)
		<-events
		var pauses []time.Duration
		for range 30 {
			began := time.Now()
			<-events
			pauses = append(pauses, time.Since(began))
		}
		if got := slices.Min(pauses); got < time.Minute {
			t.Errorf("slices.Min(pauses) = %v, want at least %v", got, time.Minute)
		}
		if got := slices.Max(pauses); got > 90*time.Second {
			t.Errorf("slices.Max(pauses) = %v, want at most %v", got, 90*time.Second)
		}
		if got := slices.Max(pauses) - slices.Min(pauses); got <= 5*time.Second {
			t.Errorf("slices.Max(pauses)-slices.Min(pauses) = %v, want more than %v", got, 5*time.Second)
		}
	})
}

func TestNudgePollsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: -1})) // never by itself
		events := sitetest.Watch(t, t.Context(), p, 0)
		time.Sleep(24 * time.Hour)
		if got := b.got(); got != 0 {
			t.Errorf("b.got() = %v, want 0", got)
		}
		b.set(nil, site{Name: "a"})
		p.Nudge()
		if got, want := sitetest.All(events), ([]string{"1 Added a.0"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(events) = %q, want %q", got, want)
		}

		b.gate = make(chan struct{})
		p.Nudge()
		synctest.Wait() // the poll has begun
		for range 3 {
			p.Nudge()
		}
		close(b.gate)
		if got := b.got(); got != 3 {
			t.Errorf("one before, one that was going on, and one for all that came then: b.got() = %v, want 3", got)
		}

		_, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := b.got(); got != 1 {
			t.Errorf("b.got() = %v, want 1", got)
		}
	})
}

func TestNudgeRestartsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, regular))
		sitetest.Watch(t, t.Context(), p, 0)
		time.Sleep(900 * time.Millisecond)
		p.Nudge()
		if got := b.got(); got != 2 {
			t.Errorf("b.got() = %v, want 2", got)
		}
		time.Sleep(time.Second - 1)
		if got := b.got(); got != 0 {
			t.Errorf("b.got() = %v, want 0", got)
		}
		time.Sleep(time.Nanosecond)
		if got := b.got(); got != 1 {
			t.Errorf("b.got() = %v, want 1", got)
		}
	})
}

func TestListServesEarlierNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, regular))
		p.Nudge()
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := sitetest.All(sitetest.Watch(t, t.Context(), p, list.Version)); len(got) != 0 {
			t.Errorf("sitetest.All(sitetest.Watch(t, ctx, p, list.Version)) = %v, want none", got)
		}
		if got := b.got(); got != 1 {
			t.Errorf("b.got() = %v, want 1", got)
		}
	})
}

func TestFailedPollChangesNothing(t *testing.T) {
	twice := []site{{Name: "b", Rev: 7}, {Name: "a", Rev: 8}, {Name: "b", Rev: 9}}
	for name, c := range map[string]struct {
		items []site
		err   error
		want  string
	}{
		"an error":            {nil, errOutage, "poll: list: no route to host"},
		"an error and a list": {[]site{{Name: "a"}}, errOutage, "poll: list: no route to host"},
		"a key that is twice": {twice, nil, "poll: list: key b is in the list twice"},
		"a panic":             {[]site{{}}, nil, "poll: list: wait: recover from panic: no name"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b table
				var errs, reported sitetest.Errors
				key := func(s site) string {
					if s.Name == "" {
						panic("no name")
					}
					return s.Name
				}
				p := must(poll.New(b.list, key, poll.Config[site]{Jitter: -1, OnError: errs.Add}))
				b.set(nil, site{Name: "a", Rev: 1}, site{Name: "b", Rev: 2})
				s := &spy{ListWatcher: p}
				// A filter passes the errors on.
				in := must(informer.New(informer.Filter(s, func(site) bool { return true }), nameOf, informer.Config{Name: "sites", OnError: reported.Add}))
				r := record(t, in)
				sitetest.Start(t, in)
				if got := r.take(); len(got) != 2 {
					t.Errorf("len(r.take()) = %d, want 2: %v", len(got), got)
				}
				heard := in.LastHeard()

				b.set(c.err, c.items...)
				time.Sleep(3 * time.Second)
				got := reported.Take()
				if len(got) != 3 {
					t.Fatalf("len(got) = %d, want 3: %v", len(got), got)
				}
				if got, want := fmt.Sprint(got[0]), "informer: watch sites: "+c.want; got != want {
					t.Fatalf("got[0] = %q, want %q", got, want)
				}
				p.Nudge()
				if got := reported.Take(); len(got) != 1 {
					t.Errorf("a nudge works: len(reported.Take()) = %d, want 1: %v", len(got), got)
				}
				_, err := p.List(t.Context())
				if got := fmt.Sprint(err); got != c.want {
					t.Fatalf("err = %q, want %q", got, c.want)
				}
				if got := reported.Take(); len(got) != 1 {
					t.Errorf("the watch has seen it too: len(reported.Take()) = %d, want 1: %v", len(got), got)
				}
				if got := r.take(); len(got) != 0 {
					t.Errorf("r.take() = %v, want none", got)
				}
				if got := in.LastHeard(); !got.Equal(heard) {
					t.Errorf("in.LastHeard() = %v, want %v", got, heard)
				}
				if got := in.Stats().Errors; got != 5 {
					t.Errorf("in.Stats().Errors = %v, want 5", got)
				}
				if in.Stats().Watching {
					t.Error("in.Stats().Watching is true")
				}
				if got := fmt.Sprint(in.Stats().LastError); got != c.want {
					t.Errorf("in.Stats().LastError = %q, want %q", got, c.want)
				}

				b.set(nil, site{Name: "a", Rev: 3})
				time.Sleep(time.Second)
				if got, want := r.take(), ([]string{"update a.1 3", "delete b.2 unknown=false"}); !slices.Equal(got, want) {
					t.Errorf("r.take() = %q, want %q", got, want)
				}
				if got, want := s.got(), ([2]int{1, 1}); got != want {
					t.Errorf("one list and one watch: s.got() = %v, want %v", got, want)
				}
				if got := reported.Take(); len(got) != 0 {
					t.Errorf("reported.Take() = %v, want none", got)
				}
				if got := errs.Take(); len(got) != 0 {
					t.Errorf("no object is bad: errs.Take() = %v, want none", got)
				}
				if !in.Stats().Watching {
					t.Error("in.Stats().Watching is false")
				}
				if err := in.Stats().LastError; err != nil {
					t.Errorf("in.Stats().LastError: %v", err)
				}
			})
		})
	}
}

func TestStepReadsNothingIfPollFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1}))
		in := must(informer.New(p, nameOf, informer.Config{OnError: func(error) {}}))
		steps := must(in.Steps(t.Context()))
		defer steps.Stop()
		if !steps.Read(t.Context()) {
			t.Error("steps.Read(ctx) is false")
		}
		if !steps.Apply() {
			t.Error("steps.Apply() is false")
		}
		b.set(errOutage)
		if steps.Read(t.Context()) {
			t.Error("steps.Read(ctx) is true")
		}
		if err := in.Stats().LastError; !errors.Is(err, errOutage) {
			t.Fatalf("in.Stats().LastError = %v, want %v", err, errOutage)
		}
		if steps.Read(t.Context()) {
			t.Error("steps.Read(ctx) is true")
		}
		b.set(nil, site{Name: "a"})
		if !steps.Read(t.Context()) {
			t.Error("steps.Read(ctx) is false")
		}
		if !steps.Apply() {
			t.Error("steps.Apply() is false")
		}
		if got := in.Stats().Objects; got != 1 {
			t.Errorf("in.Stats().Objects = %v, want 1", got)
		}
		if got := in.Stats().Errors; got != uint64(2) {
			t.Errorf("in.Stats().Errors = %v, want %v", got, uint64(2))
		}
		if err := in.Stats().LastError; err != nil {
			t.Fatalf("in.Stats().LastError: %v", err)
		}
	})
}

func TestInformerRetriesFailedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		var errs sitetest.Errors
		b.set(errOutage)
		backoff := wait.Backoff{Duration: 800 * time.Millisecond}
		in := must(informer.New(must(poll.New(b.list, nameOf, regular)), nameOf, informer.Config{Name: "sites", Backoff: backoff, OnError: errs.Add}))
		sitetest.Start(t, in)
		if got, want := fmt.Sprint(errs.Take()[0]), "informer: list sites: poll: list: no route to host"; got != want {
			t.Errorf("errs.Take()[0] = %q, want %q", got, want)
		}
		b.set(nil)
		time.Sleep(800 * time.Millisecond)
		synctest.Wait()
		if !in.HasSynced() {
			t.Error("in.HasSynced() is false")
		}
	})
}

func TestPollWithoutChangesIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		in := must(informer.New(must(poll.New(b.list, nameOf, regular)), nameOf, informer.Config{}))
		sitetest.Start(t, in)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, want := in.LastHeard(), time.Now(); !got.Equal(want) {
			t.Errorf("in.LastHeard() = %v, want %v", got, want)
		}
	})
}

func TestPollUsesEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		b.set(nil, site{Name: "a", Life: 1})
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, Equal: func(a, b site) bool { return a.Rev == b.Rev }}))
		events := sitetest.Watch(t, t.Context(), p, 0)
		sitetest.All(events)
		b.set(nil, site{Name: "a", Life: 2})
		time.Sleep(time.Second)
		if got, want := sitetest.All(events), ([]string{"1 Bookmark .0"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(events) = %q, want %q", got, want)
		}
		b.set(nil, site{Name: "a", Life: 2, Rev: 1})
		time.Sleep(time.Second)
		if got, want := sitetest.All(events), ([]string{"2 Modified a.1"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(events) = %q, want %q", got, want)
		}

		var equaler informer.Equaler[site] = p // so an informer compares what it lists by the same function
		if !equaler.Equal(site{Life: 1}, site{Life: 2}) {
			t.Error("equaler.Equal(site{Life: 1}, site{Life: 2}) is false")
		}
		if equaler.Equal(site{Rev: 1}, site{Rev: 2}) {
			t.Error("equaler.Equal(site{Rev: 1}, site{Rev: 2}) is true")
		}
	})
}
