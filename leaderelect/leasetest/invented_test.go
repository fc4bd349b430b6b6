package leasetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"iter"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/retry"
)

// The stores of this test were invented from the documentation alone, without a look at the suite.
func TestSuiteDetectsInventedStores(t *testing.T) {
	for mistake, open := range map[string]func(b *broken) Backend{
		"Update compares terms": by(func(s *custom) {
			s.before("update", func(b *broken, e *leaderelect.Entry) {
				if have := b.entries[e.Key]; e.Term > have.Term {
					e.Version = have.Version
				}
			})
		}),
		"Update compares the holder, the first byte of the value": by(func(s *custom) {
			s.before("update", func(b *broken, e *leaderelect.Entry) {
				if have := b.entries[e.Key]; bytes.HasPrefix(have.Value, e.Value[:min(len(e.Value), 1)]) {
					e.Version = have.Version
				}
			})
		}),
		"versions are compared as numbers": by(func(s *custom) {
			s.before("update", func(b *broken, e *leaderelect.Entry) {
				if n, err := strconv.Atoi(strings.TrimSpace(e.Version)); err == nil {
					e.Version = strconv.Itoa(n)
				}
			})
		}),
		"Create replaces an empty record": by(func(s *custom) {
			s.before("create", func(b *broken, e *leaderelect.Entry) {
				if have := b.entries[e.Key]; len(have.Value) == 0 {
					delete(b.entries, e.Key)
				}
			})
		}),
		"a conflict touches the record": by(func(s *custom) {
			update := s.update
			s.update = func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
				got, err := update(ctx, e)
				if errors.Is(err, leaderelect.ErrConflict) {
					s.locked(func() {
						if have, ok := s.entries[e.Key]; ok {
							s.putLocked(have)
						}
					})
				}
				return got, err
			}
		}),
		"a write of the same bytes is left out": by(func(s *custom) {
			update := s.update
			s.update = func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
				if have, err := s.get(ctx, e.Key); err == nil && have.Version == e.Version && bytes.Equal(have.Value, e.Value) {
					return have, nil
				}
				return update(ctx, e)
			}
		}),
		"a read touches the record": by(func(s *custom) {
			get := s.get
			s.get = func(ctx context.Context, key string) (leaderelect.Entry, error) {
				e, err := get(ctx, key)
				if err == nil {
					s.locked(func() { s.putLocked(e) })
				}
				return e, err
			}
		}),
		"Create is not atomic": by(func(s *custom) {
			create := s.create
			s.create = func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
				if _, err := s.get(ctx, e.Key); !errors.Is(err, leaderelect.ErrNotFound) || ctx.Err() != nil {
					return create(ctx, e)
				}
				sleep(ctx)
				s.locked(func() { e = s.putLocked(e) })
				return s.reply(e)
			}
		}),
		"the version is a time in seconds": by(func(s *custom) {
			s.locked(func() { s.versionOf = func() string { return strconv.FormatInt(time.Now().Unix(), 10) } })
		}),
		"the error comes after the commit": by(func(s *custom) {
			update, n := s.update, 0
			s.update = func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
				got, err := update(ctx, e)
				if n++; err == nil && n%3 == 0 {
					return got, errVague
				}
				return got, err
			}
		}),
		"Update finds nothing instead of a conflict": errorsOf(func(err error) error {
			if errors.Is(err, leaderelect.ErrConflict) {
				return leaderelect.ErrNotFound
			}
			return err
		}),
		"a conflict is also not found": errorsOf(func(err error) error {
			if errors.Is(err, leaderelect.ErrConflict) {
				return errors.Join(leaderelect.ErrNotFound, err)
			}
			return err
		}),
		"not found is also a conflict": errorsOf(func(err error) error {
			if errors.Is(err, leaderelect.ErrNotFound) {
				return errors.Join(leaderelect.ErrConflict, err)
			}
			return err
		}),
		"a conflict is permanent": errorsOf(func(err error) error {
			if errors.Is(err, leaderelect.ErrConflict) {
				return retry.Permanent(err)
			}
			return err
		}),
		"an end is permanent": errorsOf(func(err error) error {
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				return retry.Permanent(err)
			}
			return err
		}),
		"an outage is permanent": errorsOf(func(err error) error {
			if errors.Is(err, errVague) {
				return retry.Permanent(err)
			}
			return err
		}),
		"an end does not say that it is one": errorsOf(func(err error) error {
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				return errVague
			}
			return err
		}),

		"keys ignore repeated slashes": keys(func(k string) string { return strings.ReplaceAll(k, "//", "/") }),
		"a plus in a key is a space":   keys(func(k string) string { return strings.ReplaceAll(k, "+", " ") }),
		"keys are cut at 512 bytes":    keys(func(k string) string { return k[:min(len(k), 512)] }),
		"keys are a CRC-32":            keys(func(k string) string { return fmt.Sprint(crc32.ChecksumIEEE([]byte(k))) }),
		"keys are a hash of 32 bits": keys(func(k string) string {
			h := fnv.New32a()
			_, _ = h.Write([]byte(k))
			return fmt.Sprint(h.Sum32())
		}),
		"values lose a byte order mark": values(func(v []byte) []byte { return bytes.TrimPrefix(v, []byte("\ufeff")) }),
		"values are composed":           values(func(v []byte) []byte { return bytes.ReplaceAll(v, []byte("a\u0308"), []byte("ä")) }),
		"values have unix line endings": values(func(v []byte) []byte { return bytes.ReplaceAll(v, []byte("\r\n"), []byte("\n")) }),

		"Get is older than List":  lagging(false, true),
		"Get is older than Watch": lagging(true, false),

		"an end meanwhile is a conflict": by(func(s *custom) {
			s.meanwhile = func(e leaderelect.Entry) (leaderelect.Entry, error) {
				s.locked(func() { s.putLocked(e) })
				return leaderelect.Entry{}, leaderelect.ErrConflict // the store has tried again
			}
		}),
		"an end meanwhile leaves half of a write": by(func(s *custom) {
			s.meanwhile = func(e leaderelect.Entry) (leaderelect.Entry, error) {
				e.Value = []byte("torn")
				s.locked(func() { s.putLocked(e) })
				return leaderelect.Entry{}, context.Canceled
			}
		}),
		"an end meanwhile is successful": by(func(s *custom) {
			s.meanwhile = func(e leaderelect.Entry) (leaderelect.Entry, error) { return e, nil }
		}),
		"calls wait for each other": by(func(s *custom) {
			connection, get := make(chan struct{}, 1), s.get
			s.get = func(ctx context.Context, key string) (leaderelect.Entry, error) {
				connection <- struct{}{}
				defer func() { <-connection }()
				return get(ctx, key)
			}
		}),

		"a restart forgets creations": withBackend(func(s *custom, b *Backend) {
			b.Restart = func() {
				s.locked(func() {
					for k, e := range s.entries {
						if e.Version == s.created[k] {
							delete(s.entries, k)
						}
					}
				})
			}
		}),
		"a restart restarts the floors": withBackend(func(s *custom, b *Backend) {
			b.Restart = func() { s.locked(func() { s.floor = 0 }) }
		}),
		"floors stay, and nobody can delete": withBackend(func(s *custom, b *Backend) {
			s.floorStays, b.Delete = true, nil
		}),

		"a watch begins with its loop": by(func(s *custom) {
			watch := s.watch
			s.watch = func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
				first, err := s.get(ctx, key)
				return func(yield func(leaderelect.Entry, error) bool) {
					if err == nil && !yield(first, nil) {
						return
					}
					begins := err == nil
					for e, err := range watch(ctx, key) {
						if begins {
							begins = false
							continue
						}
						if !yield(e, err) {
							return
						}
					}
				}
			}
		}),
		"a watch has room for 100 changes": by(func(s *custom) {
			watch := s.watch
			s.watch = func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
				return func(yield func(leaderelect.Entry, error) bool) {
					changes, done := make(chan leaderelect.Entry, 100), make(chan struct{})
					ctx, cancel := context.WithCancel(ctx)
					defer func() { cancel(); <-done }()
					go func() {
						defer close(done)
						for e := range watch(ctx, key) {
							select {
							case changes <- e:
							default: // dropped
							}
						}
					}()
					for {
						select {
						case e := <-changes:
							if !yield(e, nil) {
								return
							}
						case <-ctx.Done():
							return
						}
					}
				}
			}
		}),
		"a watch polls every five seconds": by(func(s *custom) {
			s.watch = watchLike(s.get, func(leaderelect.Entry, error) time.Duration { return 5 * time.Second })
		}),
		"a watch ends with a record": by(func(s *custom) {
			watch := s.watch
			s.watch = func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
				return func(yield func(leaderelect.Entry, error) bool) {
					var last leaderelect.Entry
					for e, err := range watch(ctx, key) {
						if last = e; !yield(e, err) {
							return
						}
					}
					yield(last, ctx.Err())
				}
			}
		}),
		"a watch goes on after its error": by(func(s *custom) {
			watch := s.watch
			s.watch = func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
				return func(yield func(leaderelect.Entry, error) bool) {
					for e, err := range watch(ctx, key) {
						if !yield(e, err) {
							return
						}
					}
					if yield(leaderelect.Entry{}, ctx.Err()) {
						yield(leaderelect.Entry{}, ctx.Err())
					}
				}
			}
		}),
		"a watch is silent after an outage": withBackend(func(s *custom, b *Backend) {
			deafAfter(s, &b.Drop)
		}),
		"a watch is silent after a restart": withBackend(func(s *custom, b *Backend) {
			deafAfter(s, &b.Restart)
		}),
	} {
		t.Run(mistake, func(t *testing.T) {
			if failed := failure(t, &broken{}, open, cases()); failed == "" {
				t.Error("the store passes")
			}
		})
	}
}

func TestSuiteDetectsInventedSessions(t *testing.T) {
	for mistake, s := range map[string]*unreliable{
		"AwaitEnd does not wait":        {awaitEnd: func(context.Context, string) error { return nil }},
		"AwaitEnd never reports":        {awaitEnd: func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }},
		"AwaitEnd reports late":         {late: 20 * time.Second},
		"AwaitEnd takes an end for one": {errIsEnd: true},
		"AwaitEnd ignores its context":  {stuck: true},
		"one caller hears of an end":    {onlyFirst: true},
		"an end is forgotten":           {noHistory: true},
		"names of sessions are cut":     {name: func(n string) string { return n[:min(len(n), 20)] }},
		"names ignore case":             {name: strings.ToLower},
		"names end at NUL":              {name: func(n string) string { n, _, _ = strings.Cut(n, "\x00"); return n }},
		"Hold calls too early":          {early: true},
		"Hold does not call":            {silent: true},
		"Hold calls twice":              {twice: true},
		"Hold returns at once":          {short: true},
		"Hold ignores its context":      {holdsOn: true},
		"Hold does not say why":         {noReason: true},
		"two hold one session":          {shared: true},
	} {
		t.Run(mistake, func(t *testing.T) {
			if failed := failure(t, &broken{}, sessions(s), sessionCases); failed == "" {
				t.Error("the sessions pass")
			}
		})
	}
}

func TestCorrectSessionsPass(t *testing.T) {
	if failed := failure(t, &broken{}, sessions(&unreliable{}), sessionCases); failed != "" {
		t.Errorf("the store fails: %s", failed)
	}
}

// A read may be stale, if it is no older than what the same handle has returned before.
func TestStoreWhoseReadsLagPasses(t *testing.T) {
	if failed := failure(t, &broken{}, lagging(true, true), cases()); failed != "" {
		t.Errorf("the store fails: %s", failed)
	}
}

// custom is a correct store, some methods of which are replaced.
type custom struct {
	*broken
	get            func(ctx context.Context, key string) (leaderelect.Entry, error)
	create, update func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error)
	watch          func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error]

	created   map[string]string                                    // first versions, by key
	meanwhile func(e leaderelect.Entry) (leaderelect.Entry, error) // instead of a write whose context ends meanwhile
	list      func(ctx context.Context, p string) ([]leaderelect.Entry, error)
}

func (s *custom) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	return s.get(ctx, key)
}

func (s *custom) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return s.write(ctx, e, func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
		got, err := s.create(ctx, e)
		s.locked(func() { s.created[e.Key] = got.Version })
		return got, err
	})
}

func (s *custom) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return s.write(ctx, e, s.update)
}

func (s *custom) write(
	ctx context.Context, e leaderelect.Entry, f func(context.Context, leaderelect.Entry) (leaderelect.Entry, error),
) (leaderelect.Entry, error) {
	ended := ctx.Err() != nil
	got, err := f(ctx, e)
	if err != nil && ctx.Err() != nil && !ended && s.meanwhile != nil {
		return s.meanwhile(e)
	}
	return got, err
}

func (s *custom) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	return s.list(ctx, prefix)
}

func (s *custom) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return s.watch(ctx, key)
}

// before calls f with the lock before each write.
func (s *custom) before(op string, f func(b *broken, e *leaderelect.Entry)) {
	method := &s.update
	if op == "create" {
		method = &s.create
	}
	inner := *method
	*method = func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
		if ctx.Err() == nil {
			s.locked(func() { f(s.broken, &e) })
		}
		return inner(ctx, e)
	}
}

// by returns a backend whose store is changed by f.
func by(f func(s *custom)) func(b *broken) Backend {
	return withBackend(func(s *custom, _ *Backend) { f(s) })
}

// withBackend returns a backend that is changed by f, together with its store.
func withBackend(f func(s *custom, backend *Backend)) func(b *broken) Backend {
	return func(b *broken) Backend {
		backend := b.backend()
		s := &custom{
			broken: b, get: b.Get, create: b.Create, update: b.Update, list: b.List, watch: b.Watch, created: make(map[string]string),
		}
		f(s, &backend)
		backend.Store = s
		return backend
	}
}

func keys(f func(string) string) func(b *broken) Backend {
	return by(func(s *custom) { s.mapKey = f })
}

func values(f func([]byte) []byte) func(b *broken) Backend {
	return by(func(s *custom) { s.mapValue = f })
}

// errorsOf replaces the errors of all methods.
func errorsOf(f func(error) error) func(b *broken) Backend {
	return by(func(s *custom) {
		get, create, update := s.get, s.create, s.update
		s.get = func(ctx context.Context, key string) (leaderelect.Entry, error) {
			e, err := get(ctx, key)
			return e, f(err)
		}
		s.create = func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
			e, err := create(ctx, e)
			return e, f(err)
		}
		s.update = func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
			e, err := update(ctx, e)
			return e, f(err)
		}
	})
}

// lagging returns a store with a cache: Get returns the state before a write through another handle three times. With lists or watches, a
// record that List or Watch has returned ends that.
func lagging(lists, watches bool) func(b *broken) Backend {
	return by(func(s *custom) {
		var mu sync.Mutex
		cached, hits := make(map[string]leaderelect.Entry), 0
		learn := func(e leaderelect.Entry) {
			mu.Lock()
			defer mu.Unlock()
			cached[e.Key], hits = e, 0
			cached[e.Key] = s.copied(e)
		}
		get, create, update, list, watch := s.get, s.create, s.update, s.list, s.watch
		s.get = func(ctx context.Context, key string) (leaderelect.Entry, error) {
			e, err := get(ctx, key)
			if err != nil {
				return e, err
			}
			mu.Lock()
			old, ok := cached[key]
			if ok && old.Version != e.Version && hits < 3 {
				hits++
				mu.Unlock()
				return s.copied(old), nil
			}
			mu.Unlock()
			learn(e)
			return e, nil
		}
		write := func(f func(context.Context, leaderelect.Entry) (leaderelect.Entry, error)) func(context.Context, leaderelect.Entry) (leaderelect.Entry, error) {
			return func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
				got, err := f(ctx, e)
				if err == nil {
					learn(got)
				} else { // it may have arrived
					mu.Lock()
					delete(cached, e.Key)
					mu.Unlock()
				}
				return got, err
			}
		}
		s.create, s.update = write(create), write(update)
		s.list = func(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
			all, err := list(ctx, prefix)
			if lists {
				for _, e := range all {
					learn(e)
				}
			}
			return all, err
		}
		s.watch = func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
			return func(yield func(leaderelect.Entry, error) bool) {
				for e, err := range watch(ctx, key) {
					if watches && err == nil && e.Version != "" {
						learn(e)
					}
					if !yield(e, err) {
						return
					}
				}
			}
		}
	})
}

// watchLike is a watch that reads, and then sleeps.
func watchLike(
	get func(context.Context, string) (leaderelect.Entry, error), pause func(leaderelect.Entry, error) time.Duration,
) func(context.Context, string) iter.Seq2[leaderelect.Entry, error] {
	return func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
		return func(yield func(leaderelect.Entry, error) bool) {
			for last := "nothing"; ctx.Err() == nil; {
				e, err := get(ctx, key)
				switch {
				case errors.Is(err, leaderelect.ErrNotFound):
					e, err = leaderelect.Entry{Key: key}, nil
				case err != nil:
					return
				}
				if e.Version != last {
					if last = e.Version; !yield(e, nil) {
						return
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause(e, err)):
				}
			}
		}
	}
}

// deafAfter makes watches that run report nothing more after a fault.
func deafAfter(s *custom, fault *func()) {
	ears, cut := context.WithCancel(context.Background())
	inner := *fault
	*fault = func() { inner(); cut() }
	watch := s.watch
	s.watch = func(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
		if ears.Err() != nil {
			return watch(ctx, key)
		}
		return func(yield func(leaderelect.Entry, error) bool) {
			both, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(ears, cancel)()
			for e, err := range watch(both, key) {
				if !yield(e, err) {
					return
				}
			}
			<-ctx.Done()
		}
	}
}

// unreliable are sessions with mistakes.
type unreliable struct {
	errIsEnd, stuck, onlyFirst, noHistory, early, silent, twice, short, holdsOn, noReason, shared bool

	awaitEnd func(ctx context.Context, name string) error
	late     time.Duration
	name     func(string) string

	over  chan struct{}
	inner *memlease.Store
	mu    *sync.Mutex
	// mu guards the following.
	waits map[string]int
}

// sessions returns a backend with sessions that make the mistakes of u.
func sessions(u *unreliable) func(b *broken) Backend {
	return func(b *broken) Backend {
		backend, s := b.backend(), *u
		s.inner, s.over, s.mu, s.waits = memlease.New(), b.over, new(sync.Mutex), make(map[string]int)
		if s.name == nil {
			s.name = func(n string) string { return n }
		}
		backend.Sessions = &s
		return backend
	}
}

func (s *unreliable) Hold(ctx context.Context, name string, held func()) error {
	call := held
	switch {
	case s.early:
		held()
		s.pause(time.Second)
		call = func() {}
	case s.silent:
		call = func() {}
	case s.twice:
		call = func() { held(); held() }
	}
	if s.short {
		held()
		return errVague
	}
	if s.holdsOn {
		ctx = s.untilOver()
	}
	err := s.inner.Hold(ctx, s.name(name), call)
	if s.shared && ctx.Err() == nil {
		held()
		<-ctx.Done()
	}
	if s.noReason {
		return nil
	}
	return err
}

func (s *unreliable) AwaitEnd(ctx context.Context, name string) error {
	if s.awaitEnd != nil {
		return s.awaitEnd(ctx, name)
	}
	s.mu.Lock()
	s.waits[name]++
	first := s.waits[name] == 1
	s.mu.Unlock()
	end := ctx
	if s.stuck {
		end = s.untilOver()
	}
	began := time.Now()
	err := s.inner.AwaitEnd(end, s.name(name))
	switch {
	case err != nil && s.errIsEnd:
		return nil
	case err == nil && s.noHistory && time.Since(began) == 0, err == nil && s.onlyFirst && !first:
		<-ctx.Done()
		return ctx.Err()
	case err == nil && s.late > 0:
		s.pause(s.late)
	}
	return err
}

// untilOver returns a context that ends with the case.
func (s *unreliable) untilOver() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-s.over; cancel() }() // ends with the case
	return ctx
}

// pause waits, until the case is over.
func (s *unreliable) pause(d time.Duration) {
	select {
	case <-s.over:
	case <-time.After(d):
	}
}
