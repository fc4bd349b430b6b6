package poll_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
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

		events := watch(t, t.Context(), p, list.Version)
		time.Sleep(time.Second - 1)
		assert.Equal(t, 1, b.got())
		b.set(nil, site{Name: "e"}, site{Name: "b", Rev: 1}, site{Name: "d"})
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"5 Added e.0", "6 Modified b.1", "7 Deleted c.0", "8 Deleted a.0"}, looptest.TakeAll(events))
		time.Sleep(time.Second)
		assert.Equal(t, []string{"8 Bookmark .0"}, looptest.TakeAll(events))
		b.set(nil)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"9 Deleted b.1", "10 Deleted d.0", "11 Deleted e.0"}, looptest.TakeAll(events), "in the order in which they came")
		assert.Equal(t, 3, b.got())
	})
}

func TestPollFromZeroNeedsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		b.set(nil, site{Name: "a"})
		p := must(poll.New(b.list, nameOf, regular))
		assert.Equal(t, []string{"1 Added a.0"}, looptest.TakeAll(watch(t, t.Context(), p, 0)))
	})
}

func TestPollIntervalHasJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: time.Minute, Jitter: 0.5}))
		events := watch(t, t.Context(), p, 0)
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
		events := watch(t, t.Context(), p, 0)
		time.Sleep(24 * time.Hour)
		assert.Zero(t, b.got())
		b.set(nil, site{Name: "a"})
		p.Nudge()
		assert.Equal(t, []string{"1 Added a.0"}, looptest.TakeAll(events))

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
		watch(t, t.Context(), p, 0)
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
		assert.Empty(t, looptest.TakeAll(watch(t, t.Context(), p, list.Version)))
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
				var reported errorLog
				key := func(s site) string {
					if s.Name == "" {
						panic("no name")
					}
					return s.Name
				}
				p := must(poll.New(b.list, key, poll.Config[site]{Jitter: -1}))
				b.set(nil, site{Name: "a", Rev: 1}, site{Name: "b", Rev: 2})
				s := &spy{ListWatcher: p}
				// A filter passes the errors on.
				in := must(informer.New(informer.Filter(s, func(site) bool { return true }), nameOf, informer.Config{Name: "sites", OnError: reported.Add}))
				r := record(t, in)
				start(t, in)
				assert.Len(t, r.take(), 2)
				last := in.LastReceived()

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
				assert.Equal(t, last, in.LastReceived())
				assert.EqualValues(t, 5, in.Stats().Errors)
				assert.False(t, in.Stats().Watching)
				assert.EqualError(t, in.Stats().LastError, c.want)

				b.set(nil, site{Name: "a", Rev: 3})
				time.Sleep(time.Second)
				assert.Equal(t, []string{"update a.1 3", "delete b.2 unknown=false"}, r.take())
				assert.Equal(t, [2]int{1, 1}, s.got(), "one list and one watch")
				assert.Empty(t, reported.Take())
				assert.True(t, in.Stats().Watching)
				assert.NoError(t, in.Stats().LastError)
			})
		})
	}
}

func TestPollWaitsAsLongAsErrorRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var polls looptest.Log[time.Duration]
		began := time.Now()
		p := must(poll.New(func(context.Context) ([]site, error) {
			polls.Add(time.Since(began))
			switch polls.Len() {
			case 2:
				return nil, retry.After(errOutage, time.Millisecond) // not earlier than usual
			case 3:
				return nil, retry.After(errOutage, 5*time.Second)
			}
			return nil, nil
		}, nameOf, poll.Config[site]{Jitter: -1}))
		start(t, must(informer.New(p, nameOf, informer.Config{OnError: func(error) {}})))
		time.Sleep(8500 * time.Millisecond)
		const s = time.Second
		assert.Equal(t, []time.Duration{0, s, 2 * s, 7 * s, 8 * s}, polls.All())
	})
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
		var errs errorLog
		b.set(errOutage)
		backoff := wait.Backoff{Duration: 800 * time.Millisecond}
		in := must(informer.New(must(poll.New(b.list, nameOf, regular)), nameOf, informer.Config{Name: "sites", Backoff: backoff, OnError: errs.Add}))
		start(t, in)
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
		start(t, in)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, time.Now(), in.LastReceived())
	})
}

func TestPollUsesEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		b.set(nil, site{Name: "a", Life: 1})
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, Equal: func(a, b site) bool { return a.Rev == b.Rev }}))
		events := watch(t, t.Context(), p, 0)
		looptest.TakeAll(events)
		b.set(nil, site{Name: "a", Life: 2})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"1 Bookmark .0"}, looptest.TakeAll(events))
		b.set(nil, site{Name: "a", Life: 2, Rev: 1})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"2 Modified a.1"}, looptest.TakeAll(events))

		var equaler informer.Equaler[site] = p // so an informer compares what it lists by the same function
		assert.True(t, equaler.Equal(site{Life: 1}, site{Life: 2}))
		assert.False(t, equaler.Equal(site{Rev: 1}, site{Rev: 2}))
	})
}

// valid refuses sites of a negative revision.
func valid(s site) error {
	if s.Rev < 0 {
		return errors.New("half written")
	}
	return nil
}

func TestInvalidObjectIsUnreadAndKeepsLastValidState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, Valid: valid}))
		b.set(nil, site{Name: "a", Rev: 1}, site{Name: "b", Rev: -1}, site{Name: "c", Rev: 1})
		list, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []site{{Name: "a", Rev: 1}, {Name: "c", Rev: 1}}, list.Items)
		require.Len(t, list.Unread, 1)
		assert.Equal(t, site{Name: "b", Rev: -1}, list.Unread[0].Object)
		assert.EqualError(t, list.Unread[0].Err, "half written")

		events := watch(t, t.Context(), p, list.Version)
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "b", Rev: -1}, site{Name: "c", Rev: 2})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"4 Unreadable a.-1", "5 Modified c.2"}, looptest.TakeAll(events), "each once")
		list, err = p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []site{{Name: "a", Rev: 1}, {Name: "c", Rev: 2}}, list.Items, "the last valid state")
		assert.Len(t, list.Unread, 2)

		b.set(nil, site{Name: "a", Rev: 1}, site{Name: "b", Rev: 4})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"5 Bookmark .0", "6 Modified a.1", "7 Added b.4", "8 Deleted c.2"}, looptest.TakeAll(events), "repaired")
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "d", Rev: -1})
		time.Sleep(time.Second)
		looptest.TakeAll(events)
		b.set(nil)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"12 Deleted a.1", "13 Deleted d.-1"}, looptest.TakeAll(events), "an invalid object can be deleted")
	})
}

func TestPanickingValidOrEqualAffectsOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1,
			Valid: func(s site) error {
				if s.Rev < 0 {
					panic("valid")
				}
				return nil
			},
			Equal: func(a, b site) bool {
				if b.Rev == 13 {
					panic("equal")
				}
				return a == b
			}}))
		b.set(nil, site{Name: "a", Rev: 1}, site{Name: "b", Rev: 1}, site{Name: "c", Rev: 1})
		events := watch(t, t.Context(), p, 0)
		assert.Len(t, looptest.TakeAll(events), 3)
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "b", Rev: 13}, site{Name: "c", Rev: 2})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"4 Unreadable a.-1", "5 Unreadable b.13", "6 Modified c.2"}, looptest.TakeAll(events))
		l, err := p.List(t.Context())
		require.NoError(t, err)
		require.Len(t, l.Unread, 2)
		assert.EqualError(t, l.Unread[0].Err, "panic: valid")
		assert.EqualError(t, l.Unread[1].Err, "panic: equal")
	})
}

func TestDuplicateInvalidObjectFailsList(t *testing.T) {
	var b table
	p := must(poll.New(b.list, nameOf, poll.Config[site]{Valid: valid}))
	for _, second := range []int{-1, 1} {
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "a", Rev: second})
		_, err := p.List(t.Context())
		assert.EqualError(t, err, "poll: list: key a is in the list twice")
	}
}

// A list function could not read one of its files.
func TestIncompleteListDeletesNothing(t *testing.T) {
	for name, version := range map[string]func(context.Context) (informer.Version, error){
		"its own versions": nil, "the versions of the source": func(context.Context) (informer.Version, error) { return 7, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b table
				var reported errorLog
				p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, Valid: valid, Version: version}))
				in := must(informer.New(p, nameOf, informer.Config{Name: "sites", OnError: reported.Add}))
				r := record(t, in)
				a, c := site{Name: "a", Rev: 1}, site{Name: "c", Rev: 1}
				incomplete := fmt.Errorf("read: %w", poll.Incomplete(errOutage))
				b.set(nil, a, site{Name: "b", Rev: 1})
				start(t, in)
				assert.Len(t, r.take(), 2)

				b.set(incomplete, a, c)
				time.Sleep(2 * time.Second)
				assert.Equal(t, []string{"add c.1"}, r.take())
				require.ErrorIs(t, in.Unread("b"), errOutage)
				require.ErrorIs(t, in.Unread("never listed"), errOutage)
				require.ErrorIs(t, in.Missing(), errOutage)
				require.NoError(t, in.Unread("a"))
				assert.NotEmpty(t, reported.Take())
				time.Sleep(time.Minute)
				assert.Empty(t, reported.Take(), "the same poll reports nothing new")

				b.set(nil, a, c)
				time.Sleep(2 * time.Second)
				assert.Equal(t, []string{"delete b.1 unknown=true"}, r.take())
				require.NoError(t, in.Unread("b"))
				require.NoError(t, in.Unread("never listed"))
				require.NoError(t, in.Missing())
			})
		})
	}
	assert.Panics(t, func() { _ = poll.Incomplete() })
}

// tagged is a table with an ETag, and a list function that has the one of its last list.
type tagged struct {
	table
	tag  int // of the table
	have int // of the last list
}

func (b *tagged) list(ctx context.Context) ([]site, error) {
	if b.have == b.tag {
		return nil, fmt.Errorf("status 304: %w", poll.ErrUnchanged)
	}
	items, err := b.table.list(ctx)
	if err == nil {
		b.have = b.tag
	}
	return items, err
}

func (b *tagged) put(items ...site) {
	b.tag++
	b.set(nil, items...)
}

func TestUnchangedListIsNotCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b tagged
		b.put(site{Name: "b"}, site{Name: "a"})
		compared := 0
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Interval: -1, Equal: func(a, b site) bool {
			compared++
			return a == b
		}}))
		list, err := p.List(t.Context())
		require.NoError(t, err)
		events := watch(t, t.Context(), p, list.Version)
		for range 3 {
			p.Nudge()
			assert.Equal(t, []string{"2 Bookmark .0"}, looptest.TakeAll(events), "so an informer can tell that the source is healthy")
		}
		again, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, list, again)
		assert.Equal(t, []string{"2 Bookmark .0"}, looptest.TakeAll(events))
		assert.Equal(t, 1, b.got(), "one list was read")
		assert.Zero(t, compared)
		b.put(site{Name: "a", Rev: 1})
		p.Nudge()
		assert.Equal(t, []string{"3 Modified a.1", "4 Deleted b.0"}, looptest.TakeAll(events))
		again, err = p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[site]{Items: []site{{Name: "a", Rev: 1}}, Version: 4}, again)
	})
}

func TestUnchangedListIsAtPresentVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tagged{tag: 1}
		version := informer.Version(10)
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, Version: func(context.Context) (informer.Version, error) {
			version += 10
			return version, nil
		}}))
		in := must(informer.New(p, nameOf, informer.Config{}))
		start(t, in)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 40, in.Version(), "other tables have changed")
		assert.False(t, in.Stale(0))
	})
}

// A list function remembers what it has returned, not what the source has made of it.
func TestUnchangedListThatWasRefusedIsRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b tagged
		key := func(s site) string {
			if s.Name == "" {
				panic("no name")
			}
			return s.Name
		}
		p := must(poll.New(b.list, key, poll.Config[site]{Valid: valid}))
		list := func() (string, error) {
			l, err := p.List(t.Context())
			return fmt.Sprint(l.Items), err
		}
		_, err := list()
		require.EqualError(t, err, "poll: list: the first list cannot be unchanged")
		b.put(site{Name: "a", Rev: 1})
		_, err = list()
		require.NoError(t, err)
		for want, items := range map[string][]site{
			"poll: list: key b is in the list twice": {{Name: "b"}, {Name: "b"}},
			"poll: list: panic: no name":             {{Name: "c"}, {}},
		} {
			b.put(items...)
			for range 3 {
				_, err = list()
				require.EqualError(t, err, want)
			}
		}
		b.put(site{Name: "a", Rev: -1}, site{Name: "d", Rev: 2})
		for range 2 {
			items, err := list()
			require.NoError(t, err)
			assert.Equal(t, "[{a 0 1} {d 0 2}]", items)
			l, err := p.List(t.Context())
			require.NoError(t, err)
			require.Len(t, l.Unread, 1)
			assert.EqualError(t, l.Unread[0].Err, "half written")
		}
		b.err = errOutage
		b.tag++
		_, err = list()
		require.ErrorIs(t, err, errOutage)
		b.err = nil
		b.tag--
		_, err = list()
		require.NoError(t, err, "the last list that was returned is still good")
	})
}

// slow is a list function that takes its time.
type slow struct{ takes atomic.Int64 }

func slowBy(d time.Duration) *slow {
	s := new(slow)
	s.takes.Store(int64(d))
	return s
}

func (s *slow) list(ctx context.Context) ([]site, error) {
	select {
	case <-time.After(time.Duration(s.takes.Load())):
		return []site{{Name: "a"}}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestInformerOfSlowListIsNotStale(t *testing.T) {
	for name, derived := range map[string]func(informer.ListWatcher[site]) informer.ListWatcher[site]{
		"a source": func(src informer.ListWatcher[site]) informer.ListWatcher[site] { return src },
		"a filter of it": func(src informer.ListWatcher[site]) informer.ListWatcher[site] {
			return informer.Filter(src, func(site) bool { return true })
		},
		"mapped": func(src informer.ListWatcher[site]) informer.ListWatcher[site] {
			return informer.Map(src, func(s site) site { return s })
		},
	} {
		for what, cfg := range map[string]poll.Config[site]{
			"the list is slow": {Jitter: -1},
			"the version is slow": {Jitter: -1, Version: func(ctx context.Context) (informer.Version, error) {
				time.Sleep(20 * time.Second)
				return 5, nil
			}},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := slowBy(30 * time.Second)
					src := must(poll.New(s.list, nameOf, cfg))
					in := must(informer.New(derived(src), nameOf, informer.Config{}))
					start(t, in)
					<-in.Synced()
					for range 10 * 60 {
						require.False(t, in.Stale(time.Second), "after %v of silence", time.Since(in.LastReceived()))
						time.Sleep(time.Second)
					}
					s.takes.Store(int64(time.Hour))
					time.Sleep(5 * time.Minute)
					assert.True(t, in.Stale(time.Second), "a list that hangs is not a slow one")
				})
			})
		}
	}
}

func TestBookmarkPeriodIncludesTimeOfPollAndForgetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowBy(time.Minute)
		src := must(poll.New(s.list, nameOf, poll.Config[site]{Interval: time.Second, Jitter: 1}))
		assert.Equal(t, 2*time.Second, src.BookmarkPeriod(), "no poll yet")
		list := func() {
			_, err := src.List(t.Context())
			require.NoError(t, err)
		}
		list()
		assert.Equal(t, time.Minute+2*time.Second, src.BookmarkPeriod())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s.takes.Store(int64(2 * time.Hour))
		_, err := src.List(ctx)
		require.Error(t, err)
		assert.Equal(t, time.Minute+2*time.Second, src.BookmarkPeriod(), "a poll that failed says nothing about a healthy one")
		s.takes.Store(int64(10 * time.Second))
		for range 5 {
			list()
		}
		assert.Greater(t, src.BookmarkPeriod(), 30*time.Second, "the next poll may be slow again")
		for range 100 {
			list()
		}
		assert.Equal(t, 12*time.Second, src.BookmarkPeriod())
	})
}

func nothing(context.Context) ([]site, error) { return nil, nil }

func TestBookmarkPeriodOfLongIntervalDoesNotOverflow(t *testing.T) {
	for _, cfg := range []poll.Config[site]{
		{Interval: math.MaxInt64}, {Interval: math.MaxInt64, Jitter: -1}, {Interval: time.Hour, Jitter: 1e300},
		{Interval: math.MaxInt64 - 1, Jitter: 1},
	} {
		src := must(poll.New(nothing, nameOf, cfg))
		assert.GreaterOrEqual(t, src.BookmarkPeriod(), cfg.Interval, "with a jitter of %v", cfg.Jitter)
	}
}

func TestInformerOfLongIntervalIsNotStale(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, interval := range []time.Duration{time.Hour, 100 * year, 200 * year, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			src := must(poll.New(nothing, nameOf, poll.Config[site]{Interval: interval, Jitter: -1}))
			in := must(informer.New(src, nameOf, informer.Config{}))
			start(t, in)
			time.Sleep(2 * time.Hour)
			assert.False(t, in.Stale(time.Minute), "it is silent for no longer than twice %v", interval)
		})
	}
}

func TestNaNJitterIsRejected(t *testing.T) {
	list := func(context.Context) ([]site, error) { return nil, nil }
	for want, jitter := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1)} {
		_, err := poll.New(list, nameOf, poll.Config[site]{Jitter: jitter})
		require.EqualError(t, err, "poll: new source: Config.Jitter is "+want+", must be a number")
	}
	_, err := poll.New(list, nameOf, poll.Config[site]{Jitter: -1, Interval: -1})
	require.NoError(t, err)
}

func TestNewPanicsWithoutListOrKeyFunc(t *testing.T) {
	list := func(context.Context) ([]site, error) { return nil, nil }
	assert.Panics(t, func() { must(poll.New(nil, nameOf, poll.Config[site]{})) })
	assert.Panics(t, func() { must(poll.New[string](list, nil, poll.Config[site]{})) })
}

// A poll follows every change, so that each change is a separate event.
func TestSourceKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[site] {
		var mu sync.Mutex
		var all []site
		p := must(poll.New(func(context.Context) ([]site, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all), nil
		}, nameOf, poll.Config[site]{Interval: -1, Valid: valid}))
		change := func(name string, with ...site) error {
			mu.Lock()
			i := slices.IndexFunc(all, func(s site) bool { return s.Name == name })
			if i < 0 {
				all = append(all, with...)
			} else {
				all = slices.Replace(all, i, i+1, with...)
			}
			mu.Unlock()
			_, err := p.List(context.Background())
			return err
		}
		return informertest.Subject[site]{
			Source:   p,
			Put:      func(name string, rev int) error { return change(name, site{Name: name, Rev: rev}) },
			Delete:   func(name string) error { return change(name) },
			Spoil:    func(name string) error { return change(name, site{Name: name, Rev: -1}) },
			Read:     func(s site) (string, int) { return s.Name, s.Rev },
			History:  1,
			Bookmark: func() error { p.Nudge(); return nil },
		}
	})
}
