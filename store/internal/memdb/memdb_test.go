package memdb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/internal/memdb"
)

// thing is an item of a test.
type thing struct {
	key     string
	version informer.Version
	deleted bool
	keeps   bool // its version, whatever SetVersion says
}

func (i *thing) ItemKey() string               { return i.key }
func (i *thing) ItemVersion() informer.Version { return i.version }
func (i *thing) SetVersion(v informer.Version) {
	if !i.keeps {
		i.version = v
	}
}
func (i *thing) IsDeleted() bool                { return i.deleted }
func (i *thing) Matches(q *backend.Query) bool  { return q.Matches(i.key, nil) }
func (i *thing) Concerns(q *backend.Query) bool { return i.Matches(q) }
func (i *thing) Record() (backend.Record, error) {
	if i.key == "bad" {
		return backend.Record{}, errors.New("bad cannot be encoded")
	}
	return backend.Record{Key: i.key, Version: i.version, Deleted: i.deleted}, nil
}

func check(db *memdb.DB) error {
	return db.CheckInvariants(func(memdb.Item) error { return nil }, func(was, now memdb.Item) error {
		if was != nil && was.ItemKey() != now.ItemKey() {
			return fmt.Errorf("%q follows %q", now.ItemKey(), was.ItemKey())
		}
		return nil
	})
}

// put commits an item over whatever is there.
func put(t *testing.T, k *memdb.Kind, key string, deleted bool) *thing {
	t.Helper()
	have, fenced := k.Find(key, nil)
	if fenced != nil {
		t.Fatal(fenced)
	}
	next := &thing{key: key, deleted: deleted}
	ok, err := k.Commit(key, have, next, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Fatal("ok is false")
	}
	return next
}

func TestCommitReplacesOnlyItemSeenByWriter(t *testing.T) {
	db := memdb.New(10)
	k := db.Kind("thing")
	if got := db.Kind("thing"); got != k {
		t.Fatalf(`db.Kind("thing") = %p, want %p`, got, k)
	}
	first := put(t, k, "a", false)
	put(t, db.Kind("other"), "a", false)
	if first.version != 1 {
		t.Errorf("first.version = %v, want 1", first.version)
	}
	for name, have := range map[string]memdb.Item{"nothing": nil, "an equal item": &thing{key: "a", version: 1}} {
		ok, err := k.Commit("a", have, &thing{key: "a"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			t.Errorf("%v: ok is true", name)
		}
	}
	fence := func(term uint64) []backend.Fence { return []backend.Fence{{Lease: "l", Term: term}} }
	ok, err := k.Commit("a", nil, nil, fence(7))
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		t.Error("a writer that has not seen the item: ok is true")
	}
	if got := db.Term("l"); got != 0 {
		t.Errorf(`db.Term("l") = %v, want 0`, got)
	}
	ok, err = k.Commit("a", first, nil, fence(5))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Error("ok is false")
	}
	if got := db.Term("l"); got != 5 {
		t.Errorf(`a write that changes nothing records its term: db.Term("l") = %v, want 5`, got)
	}
	_, err = k.Commit("a", first, &thing{key: "a"}, fence(4))
	var fenced *backend.FencedError
	if !errors.As(err, &fenced) {
		t.Fatalf("err = %v, want one of type *backend.FencedError", err)
	}
	it, err := k.Find("a", fence(4))
	if !errors.As(err, &fenced) {
		t.Fatalf("err = %v, want one of type *backend.FencedError", err)
	}
	if it != first {
		t.Errorf("the item comes with the error: it = %p, want %p", it, first)
	}
	second := put(t, k, "a", false)
	if second.version != 3 {
		t.Errorf("one counter for all kinds: second.version = %v, want 3", second.version)
	}
	if err := check(db); err != nil {
		t.Fatalf("check(db): %v", err)
	}
}

// Every watch of a random history yields what a log of all changes says, or expires if the history has dropped some of them.
func TestWatchYieldsEachChangeOnceOrExpires(t *testing.T) {
	synctest.Test(t, watchesOfRandomHistories) // a watch that has nothing to yield waits for a bookmark
}

func watchesOfRandomHistories(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := r.IntN(6)
		db := memdb.New(limit)
		k := db.Kind("thing")
		var log []*thing
		live := map[string]*thing{}
		for range 30 {
			if r.IntN(4) == 0 {
				put(t, db.Kind("other"), "x", false)
				continue
			}
			key := string(rune('a' + r.IntN(3)))
			next := put(t, k, key, live[key] != nil && r.IntN(2) == 0)
			log = append(log, next)
			if live[key] = next; next.deleted {
				delete(live, key)
			}
			if err := check(db); err != nil {
				t.Fatalf("seed %d: check(db): %v", seed, err)
			}
		}
		items, version := k.List(&backend.Query{})
		if len(items) != len(live) {
			t.Fatalf("len(items) = %d, want %d: %v", len(items), len(live), items)
		}
		for i, it := range items {
			if it != live[it.ItemKey()] {
				t.Fatalf("it = %p, want %p", it, live[it.ItemKey()])
			}
			if i != 0 && items[i-1].ItemKey() >= it.ItemKey() {
				t.Fatal("the items are not in the order of their keys")
			}
		}
		var dropped informer.Version
		if len(log) > limit {
			dropped = log[len(log)-limit-1].version
		}
		for after := range version + 2 {
			var want []memdb.Item
			for _, c := range log {
				if c.version > after {
					want = append(want, c)
				}
			}
			got, err := follow(t, k, after, version)
			if after < dropped || after > version {
				var expired *memdb.ExpiredError
				if !errors.As(err, &expired) {
					t.Fatalf("seed %d, after %d: err = %v, want one of type *memdb.ExpiredError", seed, after, err)
				}
				if !errors.Is(err, backend.ErrExpired) {
					t.Fatalf("err = %v, want %v", err, backend.ErrExpired)
				}
				if expired.First != dropped || expired.Asked != after {
					t.Fatalf("the error is about %d from %d, want %d from %d", expired.Asked, expired.First, after, dropped)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, after %d: the watch yielded %v, want %v", seed, after, got, want)
			}
		}
	}
}

// follow returns the changes after a version, up to another one.
func follow(t *testing.T, k *memdb.Kind, after, upTo informer.Version) (changes []memdb.Item, err error) {
	for s, err := range k.Watch(t.Context(), &backend.Query{}, after) {
		switch {
		case err != nil:
			return nil, err
		case s.Item != nil:
			if got := s.Item.ItemVersion(); got != s.Version {
				t.Errorf("s.Item.ItemVersion() = %v, want %v", got, s.Version)
			}
			changes = append(changes, s.Item)
		}
		if s.Version == upTo {
			return changes, nil
		}
	}
	return nil, errors.New("the watch has ended")
}

func TestWatchFallingBehindExpires(t *testing.T) {
	db := memdb.New(2)
	k := db.Kind("thing")
	put(t, k, "a", false)
	var last error
	for s, err := range k.Watch(t.Context(), &backend.Query{}, 0) {
		if last = err; err != nil {
			break
		}
		if s.Version != 1 {
			t.Fatalf("the changes after it were dropped: s.Version = %v, want 1", s.Version)
		}
		for range 3 {
			put(t, k, "a", false)
		}
	}
	if got, want := fmt.Sprint(last), "informer: version is no longer in the history of the source: version 1 is too old, the first to start from is 2"; got != want {
		t.Errorf("last = %q, want %q", got, want)
	}
}

func TestBookmarksCoverFilteredChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memdb.New(10)
		k, other := db.Kind("thing"), db.Kind("other")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		type seen struct {
			at      time.Duration
			version informer.Version
			key     string
		}
		var steps []seen
		watched := make(chan error)
		go func() { // ends with ctx
			var last error
			for s, err := range k.Watch(ctx, &backend.Query{Prefix: "a"}, 0) {
				if last = err; err != nil {
					continue
				}
				got := seen{time.Since(begin), s.Version, ""}
				if s.Item != nil {
					got.key = s.Item.ItemKey()
				}
				steps = append(steps, got)
			}
			watched <- last
		}()
		synctest.Wait()
		if !db.Waiting() {
			t.Error("db.Waiting() is false")
		}
		put(t, other, "x", false) // a bookmark at once
		synctest.Wait()
		if db.Waiting() {
			t.Error("the watch pauses: db.Waiting() is true")
		}
		put(t, other, "x", false) // and the next one after the pause
		put(t, k, "b", false)     // which this watch does not show either
		synctest.Wait()
		put(t, k, "a", false) // a change comes at once all the same
		time.Sleep(time.Second)
		put(t, other, "x", false)
		time.Sleep(backend.BookmarkInterval)
		cancel(cause)
		if err := <-watched; !errors.Is(err, cause) {
			t.Errorf("<-watched = %v, want %v", err, cause)
		}
		want := []seen{
			{0, 1, ""}, {0, 4, "a"}, {time.Second, 5, ""}, {1100*time.Millisecond + backend.BookmarkInterval/2, 5, ""},
		}
		if !slices.Equal(steps, want) {
			t.Errorf("steps = %v, want %v", steps, want)
		}
	})
}

func TestTombstoneIsRemovedWithHistory(t *testing.T) {
	db := memdb.New(2)
	k := db.Kind("thing")
	put(t, k, "a", false)
	gone := put(t, k, "a", true)
	it, _ := k.Find("a", nil)
	if it != gone {
		t.Errorf("it = %p, want %p", it, gone)
	}
	put(t, k, "b", false)
	it, _ = k.Find("a", nil)
	if it != gone {
		t.Errorf("as long as it is in the history: it = %p, want %p", it, gone)
	}
	put(t, k, "b", false)
	it, _ = k.Find("a", nil)
	if it != nil {
		t.Errorf("it = %v, want nil", it)
	}
	put(t, k, "b", true)
	again := put(t, k, "b", false)
	put(t, k, "c", false)
	put(t, k, "c", false)
	it, _ = k.Find("b", nil)
	if it != again {
		t.Errorf("the history drops the tombstone, but not its replacement: it = %p, want %p", it, again)
	}
	if err := check(db); err != nil {
		t.Fatalf("check(db): %v", err)
	}
}

func TestRecordReadReturnsItems(t *testing.T) {
	db := memdb.New(10)
	k := db.Kind("thing")
	put(t, k, "a", false)
	r, err := db.Get(t.Context(), "thing", "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(backend.Record{Key: "a", Version: 1}, r); diff != "" {
		t.Errorf("r mismatch (-want +got):\n%s", diff)
	}
	calls := 0
	r, err = db.Transact(t.Context(), "thing", "a", nil, func(have backend.Record) (*backend.Record, error) {
		if calls++; calls == 1 { // somebody else is faster
			if have.Version != 1 {
				t.Errorf("have.Version = %v, want 1", have.Version)
			}
			put(t, k, "a", false)
		}
		return &backend.Record{Value: []byte("raw"), Version: 77}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(backend.Record{Key: "a", Version: 3, Value: []byte("raw")}, r); diff != "" {
		t.Errorf("r mismatch (-want +got):\n%s", diff)
	}
	if calls != 2 {
		t.Errorf("calls = %v, want 2", calls)
	}
	same, err := db.Transact(t.Context(), "thing", "a", nil, func(backend.Record) (*backend.Record, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, same); diff != "" {
		t.Errorf("same mismatch (-want +got):\n%s", diff)
	}
	items, _ := k.List(&backend.Query{Prefix: "a"})
	if len(items) != 1 {
		t.Fatalf("len(items) = %d, want 1: %v", len(items), items)
	}
	if got := items[0].ItemVersion(); got != 3 {
		t.Errorf("items[0].ItemVersion() = %v, want 3", got)
	}
	put(t, k, "bad", false)
	for _, err := range db.List(t.Context(), "thing", backend.Query{}) {
		if got := fmt.Sprint(err); got != "bad cannot be encoded" {
			t.Errorf("err = %q, want %q", got, "bad cannot be encoded")
		}
	}
	for page, err := range db.List(t.Context(), "thing", backend.Query{Prefix: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(backend.Page{Records: []backend.Record{r}, Version: 4}, page); diff != "" {
			t.Errorf("page mismatch (-want +got):\n%s", diff)
		}
	}
	for c, err := range db.Watch(t.Context(), "thing", backend.Query{}, 2) {
		if err != nil {
			if got := fmt.Sprint(err); got != "bad cannot be encoded" {
				t.Errorf("err = %q, want %q", got, "bad cannot be encoded")
			}
			break
		}
		if diff := cmp.Diff(backend.Change{Record: r, Version: 3}, c); diff != "" {
			t.Errorf("c mismatch (-want +got):\n%s", diff)
		}
	}
}

func TestCheckInvariantsDetectsViolations(t *testing.T) {
	for want, next := range map[string]*thing{
		`thing: "b" is under the key "a"`:            {key: "b"},
		`thing: "a" has version 9, the database 1`:   {key: "a", keeps: true, version: 9},
		`thing: "a" has version 0, the database 1`:   {key: "a", keeps: true},
		`thing: the tombstone of "a" has version 0,`: {key: "a", keeps: true, deleted: true},
	} {
		db := memdb.New(10)
		_, err := db.Kind("thing").Commit("a", nil, next, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(check(db)); !strings.Contains(got, want) {
			t.Errorf("check(db) = %q, want an error that contains %q", got, want)
		}
		if err := db.CheckInvariants(nil, nil, "thing"); err != nil {
			t.Errorf(`db.CheckInvariants(nil, nil, "thing"): %v`, err)
		}
	}
	db := memdb.New(10)
	put(t, db.Kind("thing"), "a", false)
	refuse := func(memdb.Item) error { return errors.New("not this") }
	if got := fmt.Sprint(db.CheckInvariants(refuse, nil)); got != "thing: not this" {
		t.Errorf("db.CheckInvariants(refuse, nil) = %q, want %q", got, "thing: not this")
	}
	accept := func(memdb.Item) error { return nil }
	if got := fmt.Sprint(db.CheckInvariants(accept, func(_, now memdb.Item) error { return refuse(now) })); got != "thing: not this" {
		t.Errorf("db.CheckInvariants = %q, want %q", got, "thing: not this")
	}
}
