package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// handleCases write through all handles of a database, which stand for several processes.
var handleCases = []testCase{
	{"the suite has two handles of one database", func(t testing.TB, db Database) {
		if len(db.Handles) < 2 {
			t.Skip("there is one handle, so this suite does not show that two processes agree")
		}
	}},

	{"of concurrent creates through all handles, one wins", func(t testing.TB, db Database) {
		winner := oneWins(t, race(func(i int) error {
			return errOf(db.through(i, "thing").Create(patient(t), object{Key: "web", Value: Thing{Size: i + 1}}))
		}), store.ErrExists)
		for i := range db.Handles {
			if got := get(t, db.through(i, "thing"), "web").Value.Size; got != winner+1 {
				t.Fatalf("handle %d returns %d, but writer %d won", i, got-1, winner)
			}
		}
	}},

	{"a counter loses no concurrent update through all handles", func(t testing.TB, db Database) {
		const each = 3
		create(t, db.open("thing"), "counter")
		for _, err := range race(func(i int) error {
			s := db.through(i, "thing")
			for raised := 0; raised < each; {
				o, err := s.Get(patient(t), "counter")
				if err != nil {
					return err
				}
				o.Value.Size++
				switch _, err = s.Update(patient(t), o); {
				case err == nil:
					raised++
				case !errors.Is(err, store.ErrConflict):
					return err
				}
			}
			return nil
		}) {
			must(t, err)
		}
		if got := get(t, db.open("thing"), "counter").Value.Size; got != racers*each {
			t.Fatalf("%d writers raised the counter %d times each, to %d", racers, each, got)
		}
	}},

	{"a write through one handle is immediately visible through another", func(t testing.TB, db Database) {
		one, two := db.through(0, "thing"), db.through(1, "thing")
		for i := range 10 {
			key := fmt.Sprint(i % 3)
			if i >= 3 {
				remove(t, one, key)
				if _, err := two.Get(patient(t), key); !errors.Is(err, store.ErrNotFound) {
					t.Fatalf("after the deletion through one handle, the other returns %v", err)
				}
			}
			o := create(t, one, key)
			same(t, "what the other handle returns", get(t, two, key), o)
			if l := list(t, two); l.Version < o.Version {
				t.Fatalf("after version %d was written through one handle, the other lists version %d", o.Version, l.Version)
			}
			if i%3 == 2 { // a handle that writes may drop what it has cached, so one of them only reads for a while
				one, two = two, one
			}
		}
	}},

	{"one sequence of versions covers all kinds", func(t testing.TB, db Database) {
		var last informer.Version
		for i := range 12 {
			o := create(t, db.through(i/2, []string{"thing", "other", "third"}[i%3]), fmt.Sprint(i))
			if o.Version <= last {
				t.Fatalf("write %d has version %d, after version %d of another kind", i, o.Version, last)
			}
			last = o.Version
		}
	}},

	{"after a write of a term through one handle, no lower term is accepted through another", func(t testing.TB, db Database) {
		const terms, writes = 4, 6
		create(t, db.open("thing"), "web")
		var mu sync.Mutex
		first := map[uint64]informer.Version{} // the first version that was written in each term
		last := map[uint64]informer.Version{}  // and the last one
		errs := race(func(i int) error {
			s, kind := db.through(i, "thing"), "thing"
			if i%3 == 0 {
				kind = "other"
				s = db.through(i, kind)
			}
			term := uint64(i%terms + 1)
			for n := range writes {
				ctx := store.WithFence(patient(t), store.Fence{Lease: "shop", Term: term})
				o, err := s.Create(ctx, object{Key: fmt.Sprintf("%d-%d", i, n)})
				if errors.Is(err, store.ErrFenced) {
					return nil
				}
				if err != nil {
					return err
				}
				mu.Lock()
				if v, ok := first[term]; !ok || o.Version < v {
					first[term] = o.Version
				}
				last[term] = max(last[term], o.Version)
				mu.Unlock()
			}
			return nil
		})
		must(t, errors.Join(errs...))
		for term := range last {
			for greater := term + 1; greater <= terms; greater++ {
				if v, ok := first[greater]; ok && v < last[term] {
					t.Fatalf("term %d wrote version %d, and term %d wrote version %d after that", greater, v, term, last[term])
				}
			}
		}
	}},

	{"the terms of two leases are independent", func(t testing.TB, db Database) {
		s := db.open("thing")
		leases := odd(backend.MaxKey)
		term := func(i int) uint64 { return uint64(10 + len(leases) - i) }
		for i, lease := range leases {
			ctx := store.WithFence(patient(t), store.Fence{Lease: lease, Term: term(i)})
			must(t, errOf(s.Create(ctx, object{Key: fmt.Sprint(i)})))
		}
		for i, lease := range leases {
			ctx := store.WithFence(patient(t), store.Fence{Lease: lease, Term: term(i) - 1})
			_, err := db.through(1, "thing").Create(ctx, object{Key: "late"})
			e := refused(t, err, store.ErrFenced, opCreate, s, "late")
			if e.Lease != lease || e.HaveTerm != term(i) {
				t.Fatalf("the error is about term %d of lease %.40q, want %d of %.40q", e.HaveTerm, e.Lease, term(i), lease)
			}
			must(t, errOf(s.Delete(store.Unfenced(ctx), fmt.Sprint(i))))
		}
	}},

	{"watches and lists through all handles agree during concurrent writes", func(t testing.TB, db Database) {
		agreeDuringWrites(t, db, "thing")
	}},

	{"watches and lists of two kinds agree during concurrent writes of both", func(t testing.TB, db Database) {
		agreeDuringWrites(t, db, "thing", "other")
	}},

	{"every kind has a bookmark soon after another kind has changed, and when nothing changes", func(t testing.TB, db Database) {
		s, other := db.open("thing"), db.through(1, "other")
		create(t, s, "web")
		w := watch(t, patient(t), s, list(t, s).Version)
		changed := create(t, other, "x")
		w.bookmark(changed.Version)
		from := list(t, s).Version
		selected := pulled(t, s.WatchSelected(patient(t), store.Selector{Prefix: "shop/"}, from), from)
		selected.bookmark(create(t, other, "y").Version)
		selected.bookmark(create(t, s, "z").Version)
		w = watch(t, patient(t), s, list(t, s).Version)
		for range 2 { // nothing at all happens
			w.bookmark(0)
		}
		w.sees(informer.Modified, grow(t, s, "web"))
	}},

	{"the latest version covers every accepted write, and a watch reaches it", func(t testing.TB, db Database) {
		s := db.open("thing")
		w := watch(t, patient(t), s, list(t, s).Version)
		for i := range 4 {
			kind := []string{"thing", "other"}[i%2]
			o := create(t, db.through(i/2, kind), fmt.Sprint(i))
			v, err := db.through(i/2+1, "thing").LatestVersion(patient(t))
			must(t, err)
			if v < o.Version {
				t.Fatalf("the latest version is %d, after a write of version %d", v, o.Version)
			}
			if kind == "thing" {
				w.sees(informer.Added, o)
			}
			if w.last < v {
				w.bookmark(v)
			}
		}
	}},

	{"a raised fence refuses earlier terms through all handles, and writes nothing", func(t testing.TB, db Database) {
		one, two := db.through(0, "thing"), db.through(1, "thing")
		former := store.WithFence(patient(t), store.Fence{Lease: "shop", Term: 7})
		latter := store.WithFence(patient(t), store.Fence{Lease: "shop", Term: 8})
		must(t, one.RaiseFence(latter))
		_, err := two.Create(former, object{Key: "web"})
		refused(t, err, store.ErrFenced, opCreate, two, "web")
		if err := two.RaiseFence(former); !errors.Is(err, store.ErrFenced) {
			t.Fatalf("raising the fence to the former term returned %v, want the error %q", err, store.ErrFenced)
		}
		must(t, two.RaiseFence(latter))
		must(t, two.RaiseFence(patient(t))) // without a fence, nothing is raised
		keys(t, list(t, one))
		must(t, errOf(two.Create(latter, object{Key: "web"})))
	}},

	{"an undecodable record affects nothing else", func(t testing.TB, db Database) {
		s, raw := db.open("thing"), db.Handles[0]
		create(t, s, "bad")
		good, bad := create(t, s, "good"), grow(t, s, "bad") // breaking and repairing a record is not a creation
		w := watch(t, patient(t), s, list(t, s).Version)
		var whole []byte
		write := func(value func(have []byte) []byte) backend.Record {
			r, err := raw.Transact(patient(t), "thing", "bad", nil, func(have backend.Record) (*backend.Record, error) {
				have.Before, have.Value = nil, value(have.Value)
				return &have, nil
			})
			must(t, err)
			return r
		}
		broken := write(func(have []byte) []byte {
			whole = append([]byte(nil), have...)
			return []byte("{")
		})
		e := w.next()
		if e.Type != informer.Unreadable || e.Object.Key != "bad" || e.Version != broken.Version || !errors.Is(e.Err, store.ErrDecode) {
			t.Fatalf("the watch yields %v %q at version %d with the error %v, want Unreadable bad at %d", e.Type, e.Object.Key, e.Version, e.Err, broken.Version)
		}
		w.sees(informer.Modified, grow(t, s, "good"))
		l := list(t, s)
		keys(t, l, "good")
		if len(l.Unread) != 1 || l.Unread[0].Object.Key != "bad" || l.Unread[0].Object.Version != broken.Version || !errors.Is(l.Unread[0].Err, store.ErrDecode) {
			t.Fatalf("the list could not read %v, want the key bad in version %d", l.Unread, broken.Version)
		}
		_, err := s.Get(patient(t), "bad")
		if e := refused(t, err, store.ErrDecode, opGet, s, "bad"); e.Have != broken.Version {
			t.Fatalf("the error is about version %d, want %d", e.Have, broken.Version)
		}
		repaired := write(func([]byte) []byte { return whole })
		if e := w.next(); e.Object.Key != "bad" || e.Version != repaired.Version {
			t.Fatalf("after the repair the watch yields %q at version %d, want bad at %d", e.Object.Key, e.Version, repaired.Version)
		}
		sameContent(t, "what was repaired", get(t, s, "bad"), bad)
		keys(t, list(t, s), "bad", "good")
		sameContent(t, "the other object", get(t, s, "good"), func() object { good.Value.Size++; return good }())
	}},
}

// agreeDuringWrites writes to some kinds concurrently, through all handles. It fails unless caches of each kind, some of which list during
// the writes, end with what is stored.
func agreeDuringWrites(t testing.TB, db Database, kinds ...string) {
	t.Helper()
	const shared = 5
	writing, step := steady(t)
	ctx, cancel := context.WithCancelCause(writing)
	enough := errors.New("enough")
	n := len(db.Handles) * len(kinds)
	followers := make([]*follower, 2*n)
	kind := func(i int) string { return kinds[i%len(kinds)] }
	var reading sync.WaitGroup
	for i := range followers {
		followers[i] = &follower{held: map[string]object{}}
	}
	start := func(i int) {
		s := db.through(i/len(kinds), kind(i))
		reading.Go(func() { followers[i].follow(ctx, s) }) // follows until ctx ends; the case waits for it below
	}
	for i := range n {
		start(i)
	}
	errs := race(func(i int) error {
		if i < n { // these list and watch during the writes
			start(n + i)
		}
		s := db.through(i/len(kinds), kind(i))
		for n := range 4 {
			for _, key := range []string{fmt.Sprint("own", i), fmt.Sprint("shared", n%shared)} {
				if err := change(writing, s, key, i*10+n); err != nil {
					return err
				}
				step()
			}
		}
		return nil
	})
	must(t, errors.Join(errs...))
	for i := range kinds {
		end, err := db.through(1, kind(i)).Create(patient(t), object{Key: "end"})
		must(t, err)
		for j, f := range followers {
			if kind(j) == kind(i) {
				f.reach(t, end.Version)
			}
		}
	}
	cancel(enough)
	reading.Wait()
	for i, f := range followers {
		if f.err != nil && !errors.Is(f.err, enough) {
			t.Fatalf("follower %d of %s: %v", i, kind(i), f.err)
		}
		sameSet(t, f.held, list(t, db.open(kind(i))))
	}
}

// change creates, updates, or deletes an object, depending on n, while other writers do the same.
func change(ctx context.Context, s store.Store[Thing], key string, n int) error {
	for {
		o, err := s.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			_, err = s.Create(ctx, object{Key: key, Value: Thing{Size: n}})
		case err == nil && n%4 == 3:
			_, err = s.Delete(ctx, key, store.IfVersion(o.Version))
		case err == nil:
			o.Value.Size = n
			_, err = s.Update(ctx, o)
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
}

// follower is a cache of a store.
type follower struct {
	mu sync.Mutex // guards the following

	held    map[string]object
	seen    informer.Version
	err     error
	changed broadcast.Signal // wakes when seen or err changes
}

// follow lists once and watches from there until ctx ends. It lists again only if the watch expires.
func (f *follower) follow(ctx context.Context, s store.Store[Thing]) {
	for {
		l, err := s.List(ctx)
		if err != nil {
			f.set(func() { f.err = err })
			return
		}
		f.set(func() {
			f.held, f.seen = map[string]object{}, l.Version
			for _, o := range l.Items {
				f.held[o.Key] = o
			}
		})
		for e, err := range s.Watch(ctx, l.Version) {
			if errors.Is(err, informer.ErrExpired) {
				break
			}
			f.set(func() {
				if f.err = err; err == nil {
					f.apply(e)
				}
			})
			if f.err != nil {
				return
			}
		}
	}
}

func (f *follower) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Wake()
}

func (f *follower) apply(e event) {
	_, there := f.held[e.Object.Key]
	switch {
	case e.Version < f.seen || e.Version == f.seen && e.Type != informer.Bookmark:
		f.err = fmt.Errorf("an event of version %d comes after version %d", e.Version, f.seen)
	case e.Type == informer.Bookmark:
	case there == (e.Type == informer.Added):
		f.err = fmt.Errorf("%v of %q at version %d, which was there: %t", e.Type, e.Object.Key, e.Version, there)
	case e.Type == informer.Deleted:
		delete(f.held, e.Object.Key)
	default:
		f.held[e.Object.Key] = e.Object
	}
	f.seen = max(f.seen, e.Version)
}

// reach waits until f has seen a version.
func (f *follower) reach(t testing.TB, v informer.Version) {
	t.Helper()
	ctx := patient(t)
	for {
		f.mu.Lock()
		if f.err != nil || f.seen >= v {
			defer f.mu.Unlock()
			if f.err != nil {
				t.Fatalf("a follower that has seen version %d: %v", f.seen, f.err)
			}
			return
		}
		seen, changed := f.seen, f.changed.Next()
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("a follower has seen version %d, but does not reach version %d", seen, v)
		}
	}
}
