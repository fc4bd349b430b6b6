package memdb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, fenced)
	next := &thing{key: key, deleted: deleted}
	ok, err := k.Commit(key, have, next, nil)
	require.NoError(t, err)
	require.True(t, ok)
	return next
}

func TestCommitReplacesOnlyItemSeenByWriter(t *testing.T) {
	db := memdb.New(10)
	k := db.Kind("thing")
	require.Same(t, k, db.Kind("thing"))
	first := put(t, k, "a", false)
	put(t, db.Kind("other"), "a", false)
	assert.EqualValues(t, 1, first.version)
	for name, have := range map[string]memdb.Item{"nothing": nil, "an equal item": &thing{key: "a", version: 1}} {
		ok, err := k.Commit("a", have, &thing{key: "a"}, nil)
		require.NoError(t, err)
		assert.False(t, ok, name)
	}
	fence := func(term uint64) []backend.Fence { return []backend.Fence{{Lease: "l", Term: term}} }
	ok, err := k.Commit("a", nil, nil, fence(7))
	require.NoError(t, err)
	assert.False(t, ok, "a writer that has not seen the item")
	assert.Zero(t, db.Term("l"))
	ok, err = k.Commit("a", first, nil, fence(5))
	require.NoError(t, err)
	assert.True(t, ok)
	assert.EqualValues(t, 5, db.Term("l"), "a write that changes nothing records its term")
	_, err = k.Commit("a", first, &thing{key: "a"}, fence(4))
	var fenced *backend.FencedError
	require.ErrorAs(t, err, &fenced)
	it, err := k.Find("a", fence(4))
	require.ErrorAs(t, err, &fenced)
	assert.Same(t, first, it, "the item comes with the error")
	second := put(t, k, "a", false)
	assert.EqualValues(t, 3, second.version, "one counter for all kinds")
	require.NoError(t, check(db))
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
			require.NoError(t, check(db), "seed %d", seed)
		}
		items, version := k.List(&backend.Query{})
		require.Len(t, items, len(live))
		for i, it := range items {
			require.Same(t, live[it.ItemKey()], it)
			require.True(t, i == 0 || items[i-1].ItemKey() < it.ItemKey())
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
				require.ErrorAs(t, err, &expired, "seed %d, after %d", seed, after)
				require.ErrorIs(t, err, backend.ErrExpired)
				require.Equal(t, []informer.Version{dropped, after}, []informer.Version{expired.First, expired.Asked})
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d, after %d", seed, after)
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
			assert.Equal(t, s.Version, s.Item.ItemVersion())
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
		require.EqualValues(t, 1, s.Version, "the changes after it were dropped")
		for range 3 {
			put(t, k, "a", false)
		}
	}
	assert.EqualError(t, last, "version is no longer in the history of the source: version 1 is too old, the first to start from is 2")
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
		assert.True(t, db.Waiting())
		put(t, other, "x", false) // a bookmark at once
		synctest.Wait()
		assert.False(t, db.Waiting(), "the watch pauses")
		put(t, other, "x", false) // and the next one after the pause
		put(t, k, "b", false)     // which this watch does not show either
		synctest.Wait()
		put(t, k, "a", false) // a change comes at once all the same
		time.Sleep(time.Second)
		put(t, other, "x", false)
		time.Sleep(backend.BookmarkInterval)
		cancel(cause)
		assert.ErrorIs(t, <-watched, cause)
		assert.Equal(t, []seen{
			{0, 1, ""}, {0, 4, "a"}, {time.Second, 5, ""}, {1100*time.Millisecond + backend.BookmarkInterval/2, 5, ""},
		}, steps)
	})
}

func TestTombstoneIsRemovedWithHistory(t *testing.T) {
	db := memdb.New(2)
	k := db.Kind("thing")
	put(t, k, "a", false)
	gone := put(t, k, "a", true)
	it, _ := k.Find("a", nil)
	assert.Same(t, gone, it)
	put(t, k, "b", false)
	it, _ = k.Find("a", nil)
	assert.Same(t, gone, it, "as long as it is in the history")
	put(t, k, "b", false)
	it, _ = k.Find("a", nil)
	assert.Nil(t, it)
	put(t, k, "b", true)
	again := put(t, k, "b", false)
	put(t, k, "c", false)
	put(t, k, "c", false)
	it, _ = k.Find("b", nil)
	assert.Same(t, again, it, "the history drops the tombstone, but not its replacement")
	require.NoError(t, check(db))
}

func TestRecordReadReturnsItems(t *testing.T) {
	db := memdb.New(10)
	k := db.Kind("thing")
	put(t, k, "a", false)
	r, err := db.Get(t.Context(), "thing", "a")
	require.NoError(t, err)
	assert.Equal(t, backend.Record{Key: "a", Version: 1}, r)
	calls := 0
	r, err = db.Transact(t.Context(), "thing", "a", nil, func(have backend.Record) (*backend.Record, error) {
		if calls++; calls == 1 { // somebody else is faster
			assert.EqualValues(t, 1, have.Version)
			put(t, k, "a", false)
		}
		return &backend.Record{Value: []byte("raw"), Version: 77}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, backend.Record{Key: "a", Version: 3, Value: []byte("raw")}, r)
	assert.Equal(t, 2, calls)
	same, err := db.Transact(t.Context(), "thing", "a", nil, func(backend.Record) (*backend.Record, error) { return nil, nil })
	require.NoError(t, err)
	assert.Equal(t, r, same)
	items, _ := k.List(&backend.Query{Prefix: "a"})
	require.Len(t, items, 1)
	assert.EqualValues(t, 3, items[0].ItemVersion())
	put(t, k, "bad", false)
	for _, err := range db.List(t.Context(), "thing", backend.Query{}) {
		assert.EqualError(t, err, "bad cannot be encoded")
	}
	for page, err := range db.List(t.Context(), "thing", backend.Query{Prefix: "a"}) {
		require.NoError(t, err)
		assert.Equal(t, backend.Page{Records: []backend.Record{r}, Version: 4}, page)
	}
	for c, err := range db.Watch(t.Context(), "thing", backend.Query{}, 2) {
		if err != nil {
			assert.EqualError(t, err, "bad cannot be encoded")
			break
		}
		assert.Equal(t, backend.Change{Record: r, Version: 3}, c)
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
		require.NoError(t, err)
		assert.ErrorContains(t, check(db), want)
		assert.NoError(t, db.CheckInvariants(nil, nil, "thing"))
	}
	db := memdb.New(10)
	put(t, db.Kind("thing"), "a", false)
	refuse := func(memdb.Item) error { return errors.New("not this") }
	assert.EqualError(t, db.CheckInvariants(refuse, nil), "thing: not this")
	accept := func(memdb.Item) error { return nil }
	assert.EqualError(t, db.CheckInvariants(accept, func(_, now memdb.Item) error { return refuse(now) }), "thing: not this")
}
