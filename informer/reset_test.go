package informer_test

import (
	"context"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

func TestResetAcceptsOlderList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list knob[informer.List[site]]
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 1}}, Version: 9})
		in := must(informer.New(scripted{list: func(context.Context) (informer.List[site], error) { return list.get(), nil }},
			nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gaps = true
		r.add(in)
		start(t, in)
		require.Equal(t, informer.Version(9), in.Version())
		list.set(informer.List[site]{Items: []site{{Name: "b", Rev: 1}}, Version: 3})
		in.Reset()
		assert.Equal(t, []string{"add a.1 initial=true", "add b.1 initial=false", "delete a.1 unknown"}, r.take())
		assert.Equal(t, informer.Version(3), in.Version())
	})
}

// A source is restored from a backup: its watch expires, and its lists are older than what was seen.
func TestResetEndsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list knob[informer.List[site]]
		var lists knob[int]
		var errs errorLog
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 1}}, Version: 9})
		restored := make(chan struct{})
		in := must(informer.New(scripted{
			list: func(context.Context) (informer.List[site], error) {
				lists.set(lists.get() + 1)
				return list.get(), nil
			},
			watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
				return func(yield func(informer.Event[site], error) bool) {
					select {
					case <-restored:
						if after > 3 {
							yield(informer.Event[site]{}, informer.ErrExpired)
							return
						}
						<-ctx.Done()
					case <-ctx.Done():
					}
				}
			},
		}, nameOf, informer.Config{Name: "sites", OnError: errs.Add, Backoff: wait.Backoff{Duration: time.Hour, Factor: 2, Cap: time.Hour * 24}}))
		start(t, in)
		list.set(informer.List[site]{Items: []site{{Name: "b", Rev: 1}}, Version: 3})
		close(restored)
		time.Sleep(time.Hour)
		got := errs.Take()
		require.Len(t, got, 2, "after one hour of backoff, and now of two")
		assert.EqualError(t, got[1], "informer: list sites: the list is of version 3, but version 9 was seen")
		assert.Equal(t, informer.Version(9), in.Version())

		in.Reset()
		assert.Empty(t, errs.Take())
		assert.Equal(t, informer.Version(3), in.Version())
		assert.Equal(t, map[string]site{"b": {Name: "b", Rev: 1}}, contents(in))
		assert.Equal(t, 4, lists.get())
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 4, lists.get(), "it watches")
	})
}

func TestResetDuringOutageRestartsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &spy{ListWatcher: newSource()}
		source := src.ListWatcher.(interface{ Fail(error) })
		source.Fail(errOutage)
		in := must(informer.New(src, nameOf, informer.Config{
			OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Minute, Factor: 2, Cap: 24 * time.Hour},
		}))
		start(t, in)
		time.Sleep(7 * time.Minute)
		require.Equal(t, 4, src.got().lists, "after 0, 1, 3 and 7 minutes")
		in.Reset()
		require.Equal(t, 5, src.got().lists)
		time.Sleep(time.Minute - 1)
		require.Equal(t, 5, src.got().lists)
		time.Sleep(time.Nanosecond)
		require.Equal(t, 6, src.got().lists)
		source.Fail(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.True(t, in.HasSynced())
	})
}

// The first list after Reset is of the old history, because it started earlier or hangs.
func TestResetDuringList(t *testing.T) {
	for _, c := range []struct {
		name string
		hang func(ctx context.Context, release <-chan struct{}) error
	}{
		{"a list that ends with its context", func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}},
		{"a list that ignores its context and returns the old history", func(_ context.Context, release <-chan struct{}) error {
			<-release
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists := make(chan informer.List[site], 3)
				for i, version := range []informer.Version{9, 10, 3} {
					lists <- informer.List[site]{Items: []site{{Name: string("abc"[i]), Rev: 1}}, Version: version}
				}
				release := make(chan struct{})
				in := must(informer.New(scripted{list: func(ctx context.Context) (informer.List[site], error) {
					list := <-lists
					if list.Version == 10 {
						if err := c.hang(ctx, release); err != nil {
							return informer.List[site]{}, err
						}
					}
					return list, nil
				}}, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
				r := newRecorder(t)
				r.gaps = true
				r.add(in)
				start(t, in)
				in.Reset()
				synctest.Wait()
				assert.Equal(t, informer.Version(9), in.Version(), "the list hangs")
				in.Reset()
				synctest.Wait()
				close(release)
				assert.Equal(t, map[string]site{"c": {Name: "c", Rev: 1}}, r.state())
				assert.Equal(t, informer.Version(3), in.Version())
			})
		})
	}
}

// byRev is a source that compares objects by their revisions, as a database does.
type byRev struct{ scripted }

func (byRev) Equal(a, b site) bool { return a.Rev == b.Rev }

// After Reset, the cache keeps a state of the old history, because the new state cannot be read, or cannot be applied. Later it can. It has
// the same revision.
func TestStateKeptAcrossResetIsNeverCompared(t *testing.T) {
	before, after := site{Name: "a", Life: 1, Rev: 5}, site{Name: "a", Life: 2, Rev: 5}
	b := site{Name: "b", Rev: 3}
	for name, kept := range map[string]informer.List[site]{
		"unread":      {Items: []site{b}, Unread: []informer.Unread[site]{{Object: site{Name: "a"}}}, Version: 6},
		"unindexable": {Items: []site{after, b}, Version: 6},
		"one of each": {Items: []site{after, b}, Unread: []informer.Unread[site]{{Object: site{Name: "c"}}}, Version: 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var list knob[informer.List[site]]
				var broken knob[bool]
				list.set(informer.List[site]{Items: []site{before}, Version: 9})
				expire := make(chan struct{})
				in := must(informer.New(byRev{scripted{
					list: func(context.Context) (informer.List[site], error) { return list.get(), nil },
					watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
						return func(yield func(informer.Event[site], error) bool) {
							select {
							case <-expire:
								yield(informer.Event[site]{}, informer.ErrExpired)
							case <-ctx.Done():
							}
						}
					},
				}}, nameOf, informer.Config{OnError: func(error) {}}))
				cache.AddIndex(in.Indexer(), func(s site) []int {
					if broken.get() && s == after {
						panic("it has no index")
					}
					return nil
				})
				r := newRecorder(t)
				r.gaps = true
				r.add(in)
				start(t, in)
				list.set(kept)
				broken.set(true)
				in.Reset()
				require.Equal(t, []string{"add a.5 initial=true", "add b.3 initial=false"}, r.take())
				require.Equal(t, map[string]site{"a": before, "b": b}, contents(in))

				list.set(informer.List[site]{Items: []site{after, b}, Version: 7})
				broken.set(false)
				expire <- struct{}{}
				synctest.Wait()
				require.Equal(t, informer.Version(7), in.Version())
				assert.Equal(t, map[string]site{"a": after, "b": b}, contents(in))
				assert.Equal(t, []string{"update a.5 5"}, r.take(), "b is of the new history, and has not changed")
				expire <- struct{}{}
				time.Sleep(time.Minute)
				assert.Empty(t, r.take(), "and so is a now")
			})
		})
	}
}

func TestResetListsAtOnceThoughSourceExits(t *testing.T) {
	for name, when := range map[string]func(ctx context.Context){
		"in a backoff after an exit":             func(context.Context) {},
		"in a watch that exits with its context": func(ctx context.Context) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lists knob[int]
				var errs errorLog
				in := must(informer.New(scripted{
					list: func(context.Context) (informer.List[site], error) {
						lists.set(lists.get() + 1)
						return informer.List[site]{Version: 1}, nil
					},
					watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
						return func(func(informer.Event[site], error) bool) {
							when(ctx)
							runtime.Goexit()
						}
					},
				}, nameOf, informer.Config{Name: "sites", OnError: errs.Add, Backoff: wait.Backoff{Duration: time.Hour}}))
				start(t, in)
				require.Equal(t, 1, lists.get())
				in.Reset()
				got := errs.Take()
				require.Len(t, got, 1)
				require.EqualError(t, got[0], "informer: read sites: it has called runtime.Goexit")
				assert.Equal(t, 2, lists.get())
				time.Sleep(time.Hour - 1)
				require.Empty(t, errs.Take())
				assert.Equal(t, 2, lists.get())
			})
		})
	}
}
