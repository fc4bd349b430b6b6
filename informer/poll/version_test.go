package poll_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// numbered is a table with the number of its last change.
type numbered struct {
	mu     sync.Mutex
	items  []site
	number informer.Version
	err    error
}

func (n *numbered) list(context.Context) ([]site, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.items), nil
}

func (n *numbered) version(context.Context) (informer.Version, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.number, n.err
}

func (n *numbered) set(number informer.Version, items ...site) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number, n.items = number, items
}

func (n *numbered) config() poll.Config[site] {
	return poll.Config[site]{Jitter: -1, Version: n.version}
}

func TestSourceWithOwnVersionsKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[site] {
		n := &numbered{}
		cfg := n.config()
		cfg.Interval = -1
		var shot []site // what there was at the version: the suite wants no event of what a list has shown
		cfg.Version = func(context.Context) (informer.Version, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			shot = slices.Clone(n.items)
			return n.number, nil
		}
		p := must(poll.New(func(context.Context) ([]site, error) { return shot, nil }, nameOf, cfg))
		change := func(name string, with ...site) error {
			n.mu.Lock()
			items := slices.Clone(n.items)
			if i := slices.IndexFunc(items, func(s site) bool { return s.Name == name }); i < 0 {
				items = append(items, with...)
			} else {
				items = slices.Replace(items, i, i+1, with...)
			}
			n.items, n.number = items, n.number+3
			n.mu.Unlock()
			_, err := p.List(context.Background())
			return err
		}
		return informertest.Subject[site]{
			Source:   p,
			Put:      func(name string, rev int) error { return change(name, site{Name: name, Rev: rev}) },
			Delete:   func(name string) error { return change(name) },
			Read:     func(s site) (string, int) { return s.Name, s.Rev },
			History:  1,
			Bookmark: func() error { p.Nudge(); return nil },
		}
	})
}

func TestVersionIsReadBeforeList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &numbered{}
		n.set(100, site{Name: "a"})
		p := must(poll.New(n.list, nameOf, n.config()))
		list, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.Version(100), list.Version)
		events := watch(t, t.Context(), p, list.Version)
		n.set(107, site{Name: "a", Rev: 1}, site{Name: "b"})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"100 Modified a.1", "107 Added b.0"}, looptest.TakeAll(events), "only the last one has the version")
		n.set(109, site{Name: "a", Rev: 1}, site{Name: "b"})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"109 Bookmark .0"}, looptest.TakeAll(events), "another table has changed")
		n.set(109, site{Name: "a", Rev: 2})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"109 Modified a.2", "109 Deleted b.0"}, looptest.TakeAll(events), "they came after the version was read")
		n.set(3, site{Name: "a", Rev: 3})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"109 Modified a.3"}, looptest.TakeAll(events), "a version never goes back")
		n.err = errOutage
		n.set(200)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"poll: list: version: no route to host"}, looptest.TakeAll(events))
		_, err = p.List(t.Context())
		require.ErrorIs(t, err, errOutage)
		require.ErrorContains(t, err, "poll: list: version: ")
	})
}

// A watcher starts from each version that it may have seen. It receives everything that it may lack, or ErrExpired.
func TestWatcherMissesNothingFromAnyVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watches, lost := 0, 0
		for seed := range uint64(300) {
			random := rand.New(rand.NewPCG(seed, 1))
			n := &numbered{}
			cfg := n.config()
			cfg.Interval = -1
			p := must(poll.New(n.list, nameOf, cfg))
			type shown struct {
				at    informer.Version
				state map[string]int
			}
			var seen []shown // by lists
			state := map[string]int{}
			for range 6 {
				if random.IntN(3) > 0 {
					name := fmt.Sprint(random.IntN(3))
					if _, ok := state[name]; ok && random.IntN(3) == 0 {
						delete(state, name)
					} else {
						state[name] = random.IntN(3)
					}
				}
				var items []site
				for name, rev := range state {
					items = append(items, site{Name: name, Rev: rev})
				}
				n.set(n.number+informer.Version(random.IntN(2)), items...)
				l, err := p.List(t.Context())
				require.NoError(t, err)
				now := shown{l.Version, map[string]int{}}
				for _, s := range l.Items {
					now.state[s.Name] = s.Rev
				}
				seen = append(seen, now)
				for _, from := range seen {
					ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond) // nothing more comes by itself
					have, at := maps.Clone(from.state), from.at
					expired := false
					for ev, err := range p.Watch(ctx, from.at) {
						if err != nil {
							expired = errors.Is(err, informer.ErrExpired)
							break
						}
						require.GreaterOrEqual(t, ev.Version, at)
						if at = ev.Version; ev.Type == informer.Deleted {
							delete(have, ev.Object.Name)
						} else {
							have[ev.Object.Name] = ev.Object.Rev
						}
					}
					cancel()
					watches, lost = watches+1, lost+1
					if !expired {
						lost--
						require.Equal(t, state, have, "seed %d, from version %d of %v", seed, from.at, seen)
					}
				}
			}
		}
		assert.Less(t, lost, watches/2, "of the watches expired")
	})
}

func TestVersionExpectationsAreMetByCacheShowingWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &numbered{}
		n.set(5, site{Name: "a"})
		inf := must(informer.New(must(poll.New(n.list, nameOf, n.config())), nameOf, informer.Config{}))
		waits := expectations.NewVersions(expectations.Config[string]{})
		defer inf.OnVersion(func(v informer.Version) { waits.VersionObserved(uint64(v)) })()
		start(t, inf)
		n.set(8, site{Name: "a", Rev: 1})
		waits.ExpectVersion("a", 8)
		_, waiting := waits.Expires("a")
		assert.True(t, waiting)
		time.Sleep(time.Second)
		synctest.Wait()
		_, waiting = waits.Expires("a")
		assert.False(t, waiting)
		got, _ := inf.Get("a")
		assert.Equal(t, 1, got.Rev)
	})
}

func TestPanickingVersionFailsPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		p := must(poll.New(func(context.Context) ([]site, error) { return []site{{Name: "a"}}, nil }, nameOf, poll.Config[site]{
			Version: func(context.Context) (informer.Version, error) {
				if broken {
					panic("no version")
				}
				return 5, nil
			},
		}))
		_, err := p.List(t.Context())
		require.EqualError(t, err, "poll: list: panic: no version")
		broken = false
		list, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[site]{Items: []site{{Name: "a"}}, Version: 5}, list)
	})
}
