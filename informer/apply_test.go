package informer_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

func TestUnindexableObjectIsRelistedUntilIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &spy{ListWatcher: newSource()}
		in := must(informer.New(src, nameOf, informer.Config{
			OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute},
		}))
		var broken knob[bool]
		cache.AddIndex(in.Indexer(), func(s site) []int {
			if broken.get() && s.Name == "a" {
				panic("no such index")
			}
			return nil
		})
		r := newRecorder(t).add(in)
		start(t, in)
		real := src.ListWatcher.(interface {
			Put(site) informer.Version
		})
		broken.set(true)
		real.Put(site{Name: "a", Rev: 1})
		v := real.Put(site{Name: "b", Rev: 2})
		assert.Equal(t, []string{"add b.2 initial=false"}, r.take())
		assert.Equal(t, 1, src.got().lists)
		assert.Zero(t, in.Version())
		time.Sleep(time.Second)
		assert.Equal(t, 2, src.got().lists, "after the first delay")
		time.Sleep(2 * time.Second)
		assert.Equal(t, 3, src.got().lists, "after the second, which is longer")
		broken.set(false)
		time.Sleep(4 * time.Second)
		assert.Equal(t, 4, src.got().lists)
		assert.Contains(t, r.take(), "add a.1 initial=false")
		assert.Equal(t, v, in.Version())
		time.Sleep(time.Hour)
		assert.Equal(t, 4, src.got().lists, "it is healed")
	})
}

func TestUnindexableObjectHoldsBackVersionAcrossRelists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Second}}))
		cache.AddIndex(in.Indexer(), func(s site) []int { return []int{100 / s.Rev} })
		start(t, in)
		good := src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "bad", Rev: 0})
		for rev := range 5 {
			src.Put(site{Name: "a", Rev: rev + 2})
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, good, in.Version())
		}
		src.Delete("bad")
		synctest.Wait()
		assert.Equal(t, src.Version(), in.Version())
	})
}

func (minutely) BookmarkPeriod() time.Duration { return time.Minute }

// keyed is a source that does not know the last states of its objects.
type keyed struct{ informer.ListWatcher[site] }

func (k keyed) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return func(yield func(informer.Event[site], error) bool) {
		for ev, err := range k.ListWatcher.Watch(ctx, after) {
			if ev.Type == informer.Deleted {
				ev.KeyOnly, ev.Object = true, site{Name: ev.Object.Name}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func TestDeletionWithKeyOnlyHasCachedState(t *testing.T) {
	for name, derive := range map[string]func(informer.ListWatcher[site]) informer.ListWatcher[site]{
		"source": func(src informer.ListWatcher[site]) informer.ListWatcher[site] { return src },
		"map": func(src informer.ListWatcher[site]) informer.ListWatcher[site] {
			return informer.Map(src, func(s site) site { return s })
		},
		"filter": func(src informer.ListWatcher[site]) informer.ListWatcher[site] {
			return informer.Filter(src, func(s site) bool { return s.Rev > 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				in := must(informer.New(derive(keyed{src}), nameOf, informer.Config{}))
				var got []cache.Tombstone[string, site]
				_, err := in.AddHandler(informer.Handler[string, site]{OnDelete: func(d cache.Tombstone[string, site]) { got = append(got, d) }})
				require.NoError(t, err)
				start(t, in)
				src.Put(site{Name: "a", Rev: 1})
				synctest.Wait()
				src.Delete("a")
				synctest.Wait()
				last := site{Name: "a", Rev: 1}
				assert.Equal(t, []cache.Tombstone[string, site]{{Key: "a", Object: last, Previous: last, FinalStateUnknown: true}}, got)
				assert.Zero(t, in.Indexer().Len())
			})
		})
	}
}

func TestUnindexableObjectHoldsBackVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		cache.AddIndex(in.Indexer(), func(s site) []int { return []int{100 / s.Rev} })
		r := newRecorder(t).add(in)
		start(t, in)
		good := src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "bad", Rev: 0})
		src.Put(site{Name: "b", Rev: 2})
		assert.Equal(t, []string{"add a.1 initial=false", "add b.2 initial=false"}, r.take())
		assert.Equal(t, good, in.Version())
		got := errs.Take()
		require.Len(t, got, 1)
		assert.ErrorContains(t, got[0], "informer: apply bad to the cache of sites: ")

		healed := src.Put(site{Name: "bad", Rev: 3})
		assert.Equal(t, []string{"add bad.3 initial=false"}, r.take())
		assert.Equal(t, healed, in.Version())
	})
}
