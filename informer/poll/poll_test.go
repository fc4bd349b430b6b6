package poll_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		require.NoError(t, err)
		assert.Equal(t, []site{{Name: "c"}, {Name: "a"}, {Name: "b"}, {Name: "d"}}, list.Items)
		assert.Equal(t, informer.Version(4), list.Version)

		events := sitetest.Watch(t, t.Context(), p, list.Version)
		time.Sleep(time.Second - 1)
		assert.Equal(t, 1, b.got())
		b.set(nil, site{Name: "e"}, site{Name: "b", Rev: 1}, site{Name: "d"})
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"5 Added e.0", "6 Modified b.1", "7 Deleted c.0", "8 Deleted a.0"}, sitetest.All(events))
		time.Sleep(time.Second)
		assert.Equal(t, []string{"8 Bookmark .0"}, sitetest.All(events))
		b.set(nil)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"9 Deleted b.1", "10 Deleted d.0", "11 Deleted e.0"}, sitetest.All(events), "in the order in which they came")
		assert.Equal(t, 3, b.got())
	})
}

func TestPollFromZeroNeedsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		b.set(nil, site{Name: "a"})
		p := must(poll.New(b.list, nameOf, regular))
		assert.Equal(t, []string{"1 Added a.0"}, sitetest.All(sitetest.Watch(t, t.Context(), p, 0)))
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
		assert.GreaterOrEqual(t, slices.Min(pauses), time.Minute)
		assert.LessOrEqual(t, slices.Max(pauses), 90*time.Second)
		assert.Greater(t, slices.Max(pauses)-slices.Min(pauses), 5*time.Second)
	})
}

func TestNudgePollsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: -1})) // never by itself
		events := sitetest.Watch(t, t.Context(), p, 0)
		time.Sleep(24 * time.Hour)
		assert.Zero(t, b.got())
		b.set(nil, site{Name: "a"})
		p.Nudge()
		assert.Equal(t, []string{"1 Added a.0"}, sitetest.All(events))

		b.gate = make(chan struct{})
		p.Nudge()
		synctest.Wait() // the poll has begun
		for range 3 {
			p.Nudge()
		}
		close(b.gate)
		assert.Equal(t, 3, b.got(), "one before, one that was going on, and one for all that came then")

		_, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, b.got())
	})
}

func TestNudgeRestartsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, regular))
		sitetest.Watch(t, t.Context(), p, 0)
		time.Sleep(900 * time.Millisecond)
		p.Nudge()
		assert.Equal(t, 2, b.got())
		time.Sleep(time.Second - 1)
		assert.Zero(t, b.got())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, 1, b.got())
	})
}

func TestListServesEarlierNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, regular))
		p.Nudge()
		list, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Empty(t, sitetest.All(sitetest.Watch(t, t.Context(), p, list.Version)))
		assert.Equal(t, 1, b.got())
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
		"a panic":             {[]site{{}}, nil, "poll: list: panic: no name"},
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
				assert.Len(t, r.take(), 2)
				heard := in.LastHeard()

				b.set(c.err, c.items...)
				time.Sleep(3 * time.Second)
				got := reported.Take()
				require.Len(t, got, 3)
				require.EqualError(t, got[0], "informer: watch sites: "+c.want)
				p.Nudge()
				assert.Len(t, reported.Take(), 1, "a nudge works")
				_, err := p.List(t.Context())
				require.EqualError(t, err, c.want)
				assert.Len(t, reported.Take(), 1, "the watch has seen it too")
				assert.Empty(t, r.take())
				assert.Equal(t, heard, in.LastHeard())
				assert.EqualValues(t, 5, in.Stats().Errors)
				assert.False(t, in.Stats().Watching)
				assert.EqualError(t, in.Stats().LastError, c.want)

				b.set(nil, site{Name: "a", Rev: 3})
				time.Sleep(time.Second)
				assert.Equal(t, []string{"update a.1 3", "delete b.2 unknown=false"}, r.take())
				assert.Equal(t, [2]int{1, 1}, s.got(), "one list and one watch")
				assert.Empty(t, reported.Take())
				assert.Empty(t, errs.Take(), "no object is bad")
				assert.True(t, in.Stats().Watching)
				assert.NoError(t, in.Stats().LastError)
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
		assert.True(t, steps.Read(t.Context()))
		assert.True(t, steps.Apply())
		b.set(errOutage)
		assert.False(t, steps.Read(t.Context()))
		require.ErrorIs(t, in.Stats().LastError, errOutage)
		assert.False(t, steps.Read(t.Context()))
		b.set(nil, site{Name: "a"})
		assert.True(t, steps.Read(t.Context()))
		assert.True(t, steps.Apply())
		assert.Equal(t, 1, in.Stats().Objects)
		assert.Equal(t, uint64(2), in.Stats().Errors)
		require.NoError(t, in.Stats().LastError)
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
		assert.EqualError(t, errs.Take()[0], "informer: list sites: poll: list: no route to host")
		b.set(nil)
		time.Sleep(800 * time.Millisecond)
		synctest.Wait()
		assert.True(t, in.HasSynced())
	})
}

func TestPollWithoutChangesIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		in := must(informer.New(must(poll.New(b.list, nameOf, regular)), nameOf, informer.Config{}))
		sitetest.Start(t, in)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, time.Now(), in.LastHeard())
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
		assert.Equal(t, []string{"1 Bookmark .0"}, sitetest.All(events))
		b.set(nil, site{Name: "a", Life: 2, Rev: 1})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"2 Modified a.1"}, sitetest.All(events))

		var equaler informer.Equaler[site] = p // so an informer compares what it lists by the same function
		assert.True(t, equaler.Equal(site{Life: 1}, site{Life: 2}))
		assert.False(t, equaler.Equal(site{Rev: 1}, site{Rev: 2}))
	})
}
