package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/trim"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/storetest"
)

type (
	thing  = storetest.Thing
	object = store.Object[thing]
	list   = informer.List[object]
	events = iter.Seq2[informer.Event[object], error]
)

const history = 40

// memory returns an empty database in memory, whose stores go through wrap.
func memory(wrap func(store.Store[thing]) store.Store[thing]) storetest.Database {
	db := store.NewMemory(store.MemoryConfig{History: history})
	return storetest.Database{
		Handles:   []backend.Backend{db, db},
		Through:   wrap,
		Remembers: history,
		Expire:    func(kind string) error { return trim.History(db, kind, history) },
	}
}

// open returns a function that makes databases in memory, whose stores go through wrap.
func open(_ *testing.T, wrap func(store.Store[thing]) store.Store[thing]) func() storetest.Database {
	return func() storetest.Database { return memory(wrap) }
}

func TestCorrectStorePassesSuite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Empty(t, storetest.Failures(t, open(t, func(s store.Store[thing]) store.Store[thing] { return s })))
	})
}

// faulty is a store with one fault: a field that is not nil replaces the method.
type faulty struct {
	store.Store[thing]
	get    func(context.Context, string) (object, error)
	list   func(context.Context) (list, error)
	watch  func(context.Context, informer.Version) events
	create func(context.Context, object, ...store.Precondition) (object, error)
	update func(context.Context, object, ...store.Precondition) (object, error)
	delete func(context.Context, string, ...store.Precondition) (object, error)
	pick   func(context.Context, store.Selector) (list, error)
	status func(context.Context, object, ...store.Precondition) (object, error)
}

func (f *faulty) Select(ctx context.Context, sel store.Selector) (list, error) {
	if f.pick != nil {
		return f.pick(ctx, sel)
	}
	return f.Store.Select(ctx, sel)
}

func (f *faulty) UpdateStatus(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
	if f.status != nil {
		return f.status(ctx, o, pre...)
	}
	return f.Store.UpdateStatus(ctx, o, pre...)
}

func (f *faulty) Get(ctx context.Context, key string) (object, error) {
	if f.get != nil {
		return f.get(ctx, key)
	}
	return f.Store.Get(ctx, key)
}

func (f *faulty) List(ctx context.Context) (list, error) {
	if f.list != nil {
		return f.list(ctx)
	}
	return f.Store.List(ctx)
}

func (f *faulty) Watch(ctx context.Context, after informer.Version) events {
	if f.watch != nil {
		return f.watch(ctx, after)
	}
	return f.Store.Watch(ctx, after)
}

func (f *faulty) Create(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
	if f.create != nil {
		return f.create(ctx, o, pre...)
	}
	return f.Store.Create(ctx, o, pre...)
}

func (f *faulty) Update(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
	if f.update != nil {
		return f.update(ctx, o, pre...)
	}
	return f.Store.Update(ctx, o, pre...)
}

func (f *faulty) Delete(ctx context.Context, key string, pre ...store.Precondition) (object, error) {
	if f.delete != nil {
		return f.delete(ctx, key, pre...)
	}
	return f.Store.Delete(ctx, key, pre...)
}

// changed returns the events of a watch as change leaves them; those for which it returns false are left out.
func changed(seq events, change func(*informer.Event[object], *error) bool) events {
	return func(yield func(informer.Event[object], error) bool) {
		for e, err := range seq {
			if change(&e, &err) && !yield(e, err) {
				return
			}
		}
	}
}

// faults are the possible faults of a store, each with the case that must detect it.
var faults = map[string]struct {
	noticedBy string
	make      func(*faulty)
}{
	"an update that does not compare": {
		"an update of a version other than the stored one is a conflict", func(f *faulty) {
			f.update = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				now, err := f.Store.Get(ctx, o.Key)
				if err == nil {
					o.Version = now.Version
				}
				return f.Store.Update(ctx, o, pre...)
			}
		},
	},
	"an update that compares before it writes, not while": {
		"a counter loses no concurrent update", func(f *faulty) {
			f.update = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				now, err := f.Store.Get(ctx, o.Key)
				if err != nil || now.Version != o.Version {
					return f.Store.Update(ctx, o, pre...)
				}
				time.Sleep(time.Nanosecond) // all writers that are on their way get here
				for range 2 * history {
					now, err = f.Store.Update(ctx, o, pre...)
					if !errors.Is(err, store.ErrConflict) {
						break
					}
					if there, _ := f.Store.Get(ctx, o.Key); there.Version != 0 {
						o.Version = there.Version
					}
				}
				return now, err
			}
		},
	},
	"a UID that is not compared": {
		"an update with another UID is a conflict", func(f *faulty) {
			f.update = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				o.UID = ""
				return f.Store.Update(ctx, o, pre...)
			}
		},
	},
	"ignored preconditions": {
		"IfUID holds only for the stored UID", func(f *faulty) {
			f.delete = func(ctx context.Context, key string, _ ...store.Precondition) (object, error) {
				return f.Store.Delete(ctx, key)
			}
		},
	},
	"only the first precondition is checked": {
		"all preconditions must hold", func(f *faulty) {
			f.delete = func(ctx context.Context, key string, pre ...store.Precondition) (object, error) {
				return f.Store.Delete(ctx, key, pre[:min(1, len(pre))]...)
			}
		},
	},
	"a deletion that returns the earlier state": {
		"a deletion of an object without finalizers removes it", func(f *faulty) {
			f.delete = func(ctx context.Context, key string, pre ...store.Precondition) (object, error) {
				before, err := f.Store.Get(ctx, key)
				if err == nil {
					_, err = f.Store.Delete(ctx, key, pre...)
				}
				return before, err
			}
		},
	},
	"errors without a type": {
		"creating an existing key fails and changes nothing", func(f *faulty) {
			f.create = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				o, err := f.Store.Create(ctx, o, pre...)
				if errors.Is(err, store.ErrExists) {
					err = fmt.Errorf("create: %w", store.ErrExists)
				}
				return o, err
			}
		},
	},
	"ignored finalizers": {
		"an object with finalizers is deleted when the last one is removed", func(f *faulty) {
			f.create = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				finalizers := o.Finalizers
				o.Finalizers = nil
				o, err := f.Store.Create(ctx, o, pre...)
				o.Finalizers = finalizers
				return o, err
			}
		},
	},
	"an unsorted list": {
		"a list is in the order of the bytes of the keys", func(f *faulty) {
			f.list = func(ctx context.Context) (list, error) {
				l, err := f.Store.List(ctx)
				slices.Reverse(l.Items)
				return l, err
			}
		},
	},
	"a list with a version that is too new": {
		"a watch from a list yields everything after the list", func(f *faulty) {
			f.list = func(ctx context.Context) (list, error) {
				l, err := f.Store.List(ctx)
				l.Version++
				return l, err
			}
		},
	},
	"a watch that repeats": {
		"a watch from any version yields exactly the rest of the history", func(f *faulty) {
			f.watch = func(ctx context.Context, after informer.Version) events {
				return f.Store.Watch(ctx, max(after, 1)-1)
			}
		},
	},
	"a watch without deletions": {
		"a list plus later events equals the next list", func(f *faulty) {
			f.watch = func(ctx context.Context, after informer.Version) events {
				return changed(f.Store.Watch(ctx, after), func(e *informer.Event[object], _ *error) bool {
					return e.Type != informer.Deleted
				})
			}
		},
	},
	"a watch that yields deletions without the object": {
		"a deletion of an object without finalizers removes it", func(f *faulty) {
			f.watch = func(ctx context.Context, after informer.Version) events {
				return changed(f.Store.Watch(ctx, after), func(e *informer.Event[object], _ *error) bool {
					if e.Type == informer.Deleted {
						e.Object = object{Key: e.Object.Key, Version: e.Version}
					}
					return true
				})
			}
		},
	},
	"a watch that hides its error": {
		"a watch ends with the cause of its context", func(f *faulty) {
			f.watch = func(ctx context.Context, after informer.Version) events {
				return changed(f.Store.Watch(ctx, after), func(_ *informer.Event[object], err *error) bool {
					return *err == nil
				})
			}
		},
	},
	"a watch that continues after a gap": {
		"a watch from before the history expires, and a list recovers", func(f *faulty) {
			f.watch = func(ctx context.Context, after informer.Version) events {
				return func(yield func(informer.Event[object], error) bool) {
					for {
						for e, err := range f.Store.Watch(ctx, after) {
							if errors.Is(err, informer.ErrExpired) {
								break
							}
							if after = e.Version; !yield(e, err) || err != nil {
								return
							}
						}
						l, err := f.Store.List(ctx)
						if err != nil {
							return
						}
						after = l.Version
					}
				}
			}
		},
	},
	"a watch that waits for a version of another database history": {
		"a watch from a version that the store has not reached is expired", func(f *faulty) {
			f.watch = func(ctx context.Context, after informer.Version) events {
				l, _ := f.Store.List(ctx)
				return f.Store.Watch(ctx, min(after, l.Version))
			}
		},
	},
	"reads that share memory": {
		"mutating an object does not change another caller's copy", func(f *faulty) {
			var cached sync.Map
			f.get = func(ctx context.Context, key string) (object, error) {
				o, err := f.Store.Get(ctx, key)
				if err != nil {
					return o, err
				}
				c, _ := cached.LoadOrStore(o.Version, o)
				return c.(object), nil
			}
		},
	},
	"an update that writes what did not change": {
		"an update that changes nothing writes nothing", func(f *faulty) {
			f.update = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				size := o.Value.Size
				o.Value.Size = -1
				o, err := f.Store.Update(ctx, o, pre...)
				if err != nil {
					return o, err
				}
				o.Value.Size = size
				return f.Store.Update(ctx, o)
			}
		},
	},
	"a generation that grows with the status": {
		"the generation grows only with the value and with a deletion", func(f *faulty) {
			f.status = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				o, err := f.Store.UpdateStatus(ctx, o, pre...)
				o.Generation++
				return o, err
			}
		},
	},
	"a status update that writes the value": {
		"UpdateStatus replaces only the status", func(f *faulty) {
			f.status = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				after, err := f.Store.UpdateStatus(ctx, o, pre...)
				if err != nil {
					return after, err
				}
				o.Version = after.Version
				return f.Store.Update(ctx, o)
			}
		},
	},
	"an update that writes the status": {
		"Update leaves the status unchanged", func(f *faulty) {
			f.update = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				after, err := f.Store.Update(ctx, o, pre...)
				if err != nil {
					return after, err
				}
				o.Version = after.Version
				return f.Store.UpdateStatus(ctx, o)
			}
		},
	},
	"a selection that ignores labels": {
		"Select returns what the selector matches, in order, at the version of the list", func(f *faulty) {
			f.pick = func(ctx context.Context, sel store.Selector) (list, error) {
				return f.Store.Select(ctx, store.Selector{Prefix: sel.Prefix})
			}
		},
	},
	"terms recorded per kind": {
		"a write of an older term is fenced", func(f *faulty) {
			f.create = func(ctx context.Context, o object, pre ...store.Precondition) (object, error) {
				created, err := f.Store.Create(ctx, o, pre...)
				if errors.Is(err, store.ErrFenced) && f.Kind() == "other" {
					return f.Store.Create(ctx, o)
				}
				return created, err
			}
		},
	},
}

func TestSuiteDetectsEveryFault(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := open(t, func(s store.Store[thing]) store.Store[thing] {
					f := &faulty{Store: s}
					fault.make(f)
					return f
				})()
				assert.NotEmpty(t, storetest.Failure(t, fault.noticedBy, db))
			})
		})
	}
}
