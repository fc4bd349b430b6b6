package controller_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// cert is an object whose reconcile fails until its Domain is right.
type cert struct {
	Domain string
	Failed string `store:"status"`
}

type certObject = store.Object[cert]

// slowReplies is a store whose writes reply only after the watches have seen them, and whose watches are slow.
type slowReplies struct {
	store.Store[cert]
	reply, watch time.Duration
}

func (s slowReplies) wait(o certObject, err error) (certObject, error) {
	time.Sleep(s.reply)
	return o, err
}

func (s slowReplies) UpdateStatus(ctx context.Context, o certObject, pre ...store.Precondition) (certObject, error) {
	return s.wait(s.Store.UpdateStatus(ctx, o, pre...))
}

func (s slowReplies) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[certObject], error] {
	return func(yield func(informer.Event[certObject], error) bool) {
		for e, err := range s.Store.Watch(ctx, after) {
			if err == nil {
				time.Sleep(s.watch)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// failing is a controller of one certificate that fails, and says so in the status in new words each time.
type failing struct {
	db    store.Store[cert]
	c     *controller.Controller[string]
	n     int // reconciles
	words int // of GaveUp
}

func (f *failing) report(ctx context.Context, key string) error {
	o, err := f.db.Get(ctx, key)
	if err != nil {
		return err
	}
	o.Value.Failed = fmt.Sprintf("request %d of %d failed", f.n, f.words)
	_, err = f.db.UpdateStatus(ctx, o)
	return err
}

func TestOwnWriteDoesNotReviveParkedKey(t *testing.T) {
	inGaveUp := func(f *failing, cfg *controller.Config[string]) func(context.Context, string) error {
		cfg.GaveUp = func(ctx context.Context, key string, _ error) error {
			f.words++
			return f.report(ctx, key)
		}
		return func(context.Context, string) error { return errBoom }
	}
	for name, test := range map[string]struct {
		make     func(f *failing, cfg *controller.Config[string]) func(context.Context, string) error
		attempts int
	}{
		"GaveUp writes the status": {inGaveUp, 3},
		"each attempt writes the status": {func(f *failing, _ *controller.Config[string]) func(context.Context, string) error {
			return func(ctx context.Context, key string) error {
				require.NoError(t, f.report(ctx, key))
				return errBoom
			}
		}, 3},
		"a permanent error after a write of the status": {func(f *failing, cfg *controller.Config[string]) func(context.Context, string) error {
			inGaveUp(f, cfg)
			return func(ctx context.Context, key string) error {
				require.NoError(t, f.report(ctx, key))
				return retry.Permanent(errBoom)
			}
		}, 1},
		"a permanent error after writes of labels": {func(f *failing, _ *controller.Config[string]) func(context.Context, string) error {
			return func(ctx context.Context, key string) error {
				for i := range 3 {
					o, err := f.db.Get(ctx, key)
					require.NoError(t, err)
					o.Labels = map[string]string{"failed": fmt.Sprint(f.n, " ", i)}
					_, err = f.db.Update(ctx, o)
					require.NoError(t, err)
				}
				return retry.Permanent(errBoom)
			}
		}, 1},
		"a panic after the creation and deletion of another object": {func(f *failing, _ *controller.Config[string]) func(context.Context, string) error {
			return func(ctx context.Context, _ string) error {
				_, err := f.db.Create(ctx, certObject{Key: fmt.Sprint("child", f.n), Finalizers: []string{"f"}})
				require.NoError(t, err)
				o, err := f.db.Delete(ctx, fmt.Sprint("child", f.n))
				require.NoError(t, err)
				o.Finalizers = nil
				_, err = f.db.Update(ctx, o)
				require.NoError(t, err)
				panic(errBoom)
			}
		}, 3},
	} {
		for how, slow := range map[string]slowReplies{
			"at once": {}, "the event before the reply": {reply: time.Second}, "the event after it": {watch: time.Second},
			"the event too late": {watch: 15 * time.Second},
		} {
			for _, stale := range []bool{false, true} {
				bubble(t, fmt.Sprint(name, ", ", how, ", stale reads: ", stale), func(t *testing.T) {
					slow.Store = must(store.Open[cert](store.NewMemory(store.MemoryConfig{}), "Cert", store.Config[cert]{}))
					f := &failing{db: slow}
					must(f.db.Create(t.Context(), certObject{Key: "a", Value: cert{Domain: "shp.example"}}))
					inf := must(informer.New(informer.ListWatcher[certObject](slow), store.Key, informer.Config{Name: "certs"}))
					looptest.Start(t, inf.Run)
					cfg := controller.Config[string]{StaleReads: stale, Queue: workqueue.Config[string]{
						MaxAttempts: 3, RateLimiter: &limiter{delay: time.Second},
					}}
					reconcile := test.make(f, &cfg)
					f.c, _ = newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
						if f.n++; f.n > 100 {
							return controller.Result{}, nil // so that a test that fails ends
						}
						return controller.Result{}, reconcile(ctx, key)
					}, controller.For(inf).Where(func(o certObject) bool { return o.Key == "a" }),
						controller.Watches(inf, func(context.Context, certObject) ([]string, error) { return []string{"a"}, nil }).
							Where(func(o certObject) bool { return o.Key != "a" }))
					looptest.Start(t, f.c.Run)
					time.Sleep(time.Hour)
					synctest.Wait()
					assert.Equal(t, test.attempts, f.n, "attempts in an hour")
					assert.Equal(t, []string{"a"}, f.c.Parked())
					f.c.CheckInvariants(t)

					o := must(f.db.Get(t.Context(), "a"))
					o.Value.Domain = "shop.example"
					must(f.db.Update(t.Context(), o))
					time.Sleep(time.Hour)
					synctest.Wait()
					assert.Equal(t, 2*test.attempts, f.n, "a change by the user revives it, with a full budget")
					assert.Equal(t, []string{"a"}, f.c.Parked())
					f.c.CheckInvariants(t)
				})
			}
		}
	}
}

// A worker may reconcile a key, and hold it for what it has written, before the call that has added the key returns.
func TestSlowAddDoesNotReconcileKeyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must(store.Open[cert](store.NewMemory(store.MemoryConfig{}), "Cert", store.Config[cert]{}))
		must(db.Create(t.Context(), certObject{Key: "a"}))
		inf := must(informer.New(informer.ListWatcher[certObject](slowReplies{watch: time.Minute, Store: db}), store.Key, informer.Config{}))
		looptest.Start(t, inf.Run)
		f := &failing{db: db}
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{
			Hooks: workqueue.Hooks[string]{Added: func(string, int) { time.Sleep(time.Second) }},
		}}
		f.c, _ = newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			f.n++
			return controller.Result{}, f.report(ctx, key)
		}, controller.For(inf).When(func(_, _ certObject) bool { return false }))
		looptest.Start(t, f.c.Run)
		time.Sleep(time.Hour)
		f.c.Add("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 2, f.n, "for the list, and for the Add")
		f.c.CheckInvariants(t)
	})
}

// A key may be released, reconciled, and parked before the call that has added it returns.
func TestSlowAddOfHeldKeyDoesNotReviveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must(store.Open[cert](store.NewMemory(store.MemoryConfig{}), "Cert", store.Config[cert]{}))
		must(db.Create(t.Context(), certObject{Key: "a"}))
		inf := must(informer.New(informer.ListWatcher[certObject](slowReplies{watch: 5 * time.Second, Store: db}), store.Key, informer.Config{}))
		looptest.Start(t, inf.Run)
		f := &failing{db: db}
		var slow atomic.Int64
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{Group: func(string) string {
			time.Sleep(time.Duration(slow.Swap(0)))
			return ""
		}}}
		f.c, _ = newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			f.n++
			require.NoError(t, f.report(ctx, key))
			return controller.Result{}, retry.Permanent(errBoom)
		}, controller.For(inf))
		looptest.Start(t, f.c.Run)
		time.Sleep(time.Second)
		slow.Store(int64(8 * time.Second))
		go f.c.Add("a") // it is held until the cache shows the write
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 2, f.n, "for the list, and for the Add")
		assert.Equal(t, []string{"a"}, f.c.Parked())
		f.c.CheckInvariants(t)
	})
}

// row is a row of a table whose status is in the same row.
type row struct{ Key, Wanted, Failed string }

// The table is no store, so a write of GaveUp looks like one by the user: only the program knows which columns are intent.
func TestStatusColumnDoesNotReviveParkedKey(t *testing.T) {
	for _, same := range []bool{false, true} {
		bubble(t, fmt.Sprint("the same text: ", same), func(t *testing.T) {
			table := informertest.NewSource(func(r row) string { return r.Key })
			table.Put(row{Key: "a", Wanted: "shp.example"})
			inf := must(informer.New(informer.ListWatcher[row](table), func(r row) string { return r.Key }, informer.Config{Name: "rows"}))
			looptest.Start(t, inf.Run)
			n := 0
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 3, RateLimiter: &limiter{delay: time.Second}}}
			cfg.GaveUp = func(_ context.Context, key string, err error) error {
				r, _ := inf.Get(key)
				if r.Failed = err.Error(); !same {
					r.Failed += fmt.Sprint(" ", n)
				}
				table.Put(r)
				return nil
			}
			c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
				if n++; n > 100 {
					return controller.Result{}, nil
				}
				return controller.Result{}, errBoom
			}, controller.For(inf).When(func(old, new row) bool { return old.Wanted != new.Wanted }))
			looptest.Start(t, c.Run)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, 3, n, "attempts in an hour")
			assert.Equal(t, []string{"a"}, c.Parked())
			r, _ := inf.Get("a")
			r.Wanted = "shop.example"
			table.Put(r)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, 6, n, "a change of the intent revives it")
		})
	}
}

// gappy is a store whose watches end, while gap is set, with their first event: then a list follows.
type gappy struct {
	store.Store[cert]
	gap *bool
}

func (g gappy) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[certObject], error] {
	return func(yield func(informer.Event[certObject], error) bool) {
		for e, err := range g.Store.Watch(ctx, after) {
			if err == nil && e.Type != informer.Bookmark && *g.gap {
				*g.gap = false
				yield(informer.Event[certObject]{}, informer.ErrExpired)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestOwnWriteDoesNotHideChangeOfUser(t *testing.T) {
	for _, gap := range []bool{false, true} {
		bubble(t, fmt.Sprint("merged by a list: ", gap), func(t *testing.T) {
			certs := must(store.Open[cert](store.NewMemory(store.MemoryConfig{}), "Cert", store.Config[cert]{}))
			must(certs.Create(t.Context(), certObject{Key: "a"}))
			lost := false
			inf := must(informer.New(informer.ListWatcher[certObject](gappy{certs, &lost}), store.Key, informer.Config{Name: "certs"}))
			looptest.Start(t, inf.Run)
			f := &failing{db: certs}
			cfg := controller.Config[string]{GaveUp: func(ctx context.Context, key string, _ error) error {
				if f.words++; f.words == 1 {
					lost = gap
					o := must(certs.Get(ctx, key))
					o.Value.Domain = "shop.example"
					must(certs.Update(t.Context(), o)) // the user, not this reconcile
				}
				return f.report(ctx, key)
			}}
			f.c, _ = newController(t, cfg, func(context.Context, string) (controller.Result, error) {
				if f.n++; f.n > 100 {
					return controller.Result{}, nil
				}
				return controller.Result{}, retry.Permanent(errBoom)
			}, controller.For(inf))
			looptest.Start(t, f.c.Run)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, 2, f.n)
			assert.Equal(t, []string{"a"}, f.c.Parked())
			f.c.CheckInvariants(t)
		})
	}
}

func TestOwnWriteAddsKeyAfterSuccess(t *testing.T) {
	for _, late := range []bool{false, true} {
		bubble(t, fmt.Sprint("after the reconcile: ", late), func(t *testing.T) {
			certs := must(store.Open[cert](store.NewMemory(store.MemoryConfig{}), "Cert", store.Config[cert]{}))
			must(certs.Create(t.Context(), certObject{Key: "a"}))
			inf := must(informer.New(certs, store.Key, informer.Config{Name: "certs"}))
			looptest.Start(t, inf.Run)
			f := &failing{db: certs}
			f.c, _ = newController(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
				f.n++
				switch {
				case f.n > 1:
				case late:
					time.AfterFunc(time.Second, func() { assert.NoError(t, f.report(ctx, key)) })
				default:
					assert.NoError(t, f.report(ctx, key))
				}
				return controller.Result{}, nil
			}, controller.For(inf))
			looptest.Start(t, f.c.Run)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, 2, f.n, "the event of the write")
			f.c.CheckInvariants(t)
		})
	}
}

// A change there and back in one reconcile is no change, so a controller without a filter comes to rest.
func TestConditionsSetThereAndBackComeToRest(t *testing.T) {
	type site struct {
		Conditions store.Conditions `store:"status"`
	}
	for name, report := range map[string]func(cs *store.Conditions){
		"there and back": func(cs *store.Conditions) {
			cs.Set(store.Condition{Type: "Ready"})
			cs.Set(store.Condition{Type: "Ready", OK: true})
		},
		"built anew": func(cs *store.Conditions) {
			*cs = nil
			cs.Set(store.Condition{Type: "Ready", OK: true})
		},
	} {
		bubble(t, name, func(t *testing.T) {
			sites := must(store.Open[site](store.NewMemory(store.MemoryConfig{}), "Site", store.Config[site]{}))
			must(sites.Create(t.Context(), store.Object[site]{Key: "a"}))
			inf := must(informer.New(sites, store.Key, informer.Config{Name: "sites"}))
			looptest.Start(t, inf.Run)
			n := 0
			c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
				if n++; n > 100 {
					return controller.Result{}, nil
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				o, _ := inf.Get(key)
				report(&o.Value.Conditions)
				_, err := sites.UpdateStatus(ctx, o)
				return controller.Result{}, err
			}, controller.For(inf))
			looptest.Start(t, c.Run)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, 2, n)
		})
	}
}

// The reconcile of a deletion does not wait for events that may never come.
func TestDeletionEndsWhatIsExpected(t *testing.T) {
	for _, other := range []bool{false, true} {
		bubble(t, fmt.Sprint("another object has the key: ", other), func(t *testing.T) {
			s, more := newSource(object{Key: "a"}), newSource()
			if other {
				more.set(object{Key: "a"})
			}
			inf, infMore := newInformer("things", s), newInformer("more", more)
			looptest.Start(t, inf.Run)
			looptest.Start(t, infMore.Run)
			exp := expectations.NewTracked[string, string](expectations.Config[string]{TTL: -1})
			c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}},
				func(_ context.Context, key string) (controller.Result, error) {
					if inf.Indexer().Len() > 0 {
						exp.ExpectCreations(key, "child")
					}
					return controller.Result{}, nil
				}, controller.For(inf), controller.For(infMore))
			looptest.Start(t, c.Run)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Len(t, reports.Take(), 1)
			s.delete("a")
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, !other, len(reports.Take()) == 1)
			more.delete("a")
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, other, len(reports.Take()) > 0, "twice if a worker is faster: for the event that was held, and for this one")
			c.CheckInvariants(t)
		})
	}
}

func TestMisspelledKindOfOwnsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		sites := must(store.Open[int](db, "Site", store.Config[int]{}))
		servers := must(store.Open[int](db, "Server", store.Config[int]{}))
		seenSites := must(informer.New(sites, store.Key, informer.Config{Name: "sites"}))
		seenServers := must(informer.New(servers, store.Key, informer.Config{Name: "servers"}))
		_, err := controller.New("test", noop, controller.Config[string]{}, controller.For(seenSites), controller.Owns(seenServers, "site"))
		require.EqualError(t, err, `controller: new "test": Owns has the kind "site", and the informer "sites" has "Site"`)

		var out looptest.Text
		c, reports := newController(t, controller.Config[string]{Logger: looptest.Logger(&out)}, noop, controller.Owns(seenServers, "site"))
		looptest.Start(t, seenServers.Run)
		looptest.Start(t, c.Run)
		synctest.Wait()
		for _, key := range []string{"a", "b"} {
			by := store.OwnerRef{Ref: store.Ref{Kind: "Site", Key: "rome", UID: "1"}, Controller: true}
			must(servers.Create(t.Context(), store.Object[int]{Key: key, Owners: []store.OwnerRef{by}}))
			synctest.Wait()
		}
		assert.Empty(t, reports.Take())
		assert.Equal(t, 1, strings.Count(out.String(), "the kind of their owner is another"))
		assert.Contains(t, out.String(), `controller=test watch=servers kind=site owner_kind=Site object=a`)
	})
}

func TestWaitSaysWhyNothingIsReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sites := must(store.Open[int](store.NewMemory(store.MemoryConfig{}), "Site", store.Config[int]{}))
		site := must(sites.Create(t.Context(), store.Object[int]{Key: "rome"}))
		inf := must(informer.New(sites, store.Key, informer.Config{Name: "sites"}))
		c, _ := newController(t, controller.Config[string]{}, noop, controller.For(inf))
		says := func(why string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for _, err := range []error{c.WaitReconciled(ctx, "rome", site), c.WaitIdle(ctx)} {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, why)
			}
		}
		says("the controller is not running: ")
		r := looptest.Start(t, c.Run)
		says("the caches of the controller have not synced: ")
		looptest.Start(t, inf.Run)
		synctest.Wait()
		c.Pause()
		c.Add("rome")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, c.WaitReconciled(ctx, "rome", site), "the controller is paused: ")
		c.Resume()
		require.NoError(t, c.WaitReconciled(t.Context(), "rome", site))
		require.NoError(t, r.Stop())
		says("the controller is not running: ")
	})
}

// ofKind is a source outside the module: it names the kind of its versions.
type ofKind struct {
	informer.ListWatcher[object]
}

func (ofKind) Kind() string { return "thing" }

func TestReportedWriteHoldsTheKeyUntilTheCacheShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a", Value: 1})
		inf := must(informer.New(informer.ListWatcher[object](ofKind{lagging{s, 5 * time.Second}}), keyOf, informer.Config{Name: "things"}))
		looptest.Start(t, inf.Run)
		var seen looptest.Log[int]
		c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
			o, _ := inf.Get(key)
			seen.Add(o.Value)
			if o.Value == 1 {
				s.set(object{Key: "a", Value: 2})
				informer.ReportWrite(ctx, "thing", s.version())
			}
			return controller.Result{}, nil
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		time.Sleep(time.Second)
		c.Add("a") // before the cache shows the write
		synctest.Wait()
		assert.Equal(t, 1, c.Stats().HeldBy["cache things"])
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []int{1, 2}, slices.Compact(seen.Take()), "no reconcile of the old state")
		informer.ReportWrite(t.Context(), "thing", 7) // outside a reconcile: no effect
	})
}
