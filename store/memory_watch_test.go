package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// rawKind is a kind whose records no engine makes: its name tells CheckInvariants so.
const rawKind = "raw"

// putRaw writes a record of rawKind, over whatever is there.
func putRaw(t *testing.T, db *store.Memory, kind, key string, deleted bool) backend.Record {
	t.Helper()
	r, err := db.Transact(t.Context(), kind, key, nil, func(backend.Record) (*backend.Record, error) {
		return &backend.Record{Deleted: deleted}, nil
	})
	require.NoError(t, err)
	return r
}

func newMemory(history int) *store.Memory {
	return store.NewMemory(store.MemoryConfig{History: history})
}

// Every watch of a random history yields what a log of all changes says, or expires if the history has dropped some of them.
func TestWatchYieldsEachChangeOnceOrExpires(t *testing.T) {
	synctest.Test(t, watchesOfRandomHistories) // a watch that has nothing to yield waits for a bookmark
}

func watchesOfRandomHistories(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + r.IntN(6)
		db := newMemory(limit)
		var log []backend.Record
		live := map[string]backend.Record{}
		for range 30 {
			if r.IntN(4) == 0 {
				putRaw(t, db, "raw2", "x", false)
				continue
			}
			key := string(rune('a' + r.IntN(3)))
			_, there := live[key]
			next := putRaw(t, db, rawKind, key, there && r.IntN(2) == 0)
			log = append(log, next)
			if live[key] = next; next.Deleted {
				delete(live, key)
			}
			require.NoError(t, db.CheckInvariants(), "seed %d", seed)
		}
		var page backend.Page
		for p, err := range db.List(t.Context(), rawKind, backend.Query{}) {
			require.NoError(t, err)
			page = p
		}
		require.Len(t, page.Records, len(live))
		for i, r := range page.Records {
			require.Equal(t, live[r.Key], r)
			require.True(t, i == 0 || page.Records[i-1].Key < r.Key)
		}
		var dropped informer.Version
		if len(log) > limit {
			dropped = log[len(log)-limit-1].Version
		}
		for after := range page.Version + 2 {
			var want []backend.Record
			for _, c := range log {
				if c.Version > after {
					want = append(want, c)
				}
			}
			got, err := changesOf(t, db, after, page.Version)
			if after < dropped || after > page.Version {
				require.ErrorIs(t, err, backend.ErrExpired, "seed %d, after %d", seed, after)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d, after %d", seed, after)
		}
	}
}

// changesOf returns the changes of rawKind after a version, up to another one.
func changesOf(t *testing.T, db *store.Memory, after, upTo informer.Version) (changes []backend.Record, err error) {
	for c, err := range db.Watch(t.Context(), rawKind, backend.Query{}, after) {
		switch {
		case err != nil:
			return nil, err
		case c.Record.Key != "":
			assert.Equal(t, c.Version, c.Record.Version)
			changes = append(changes, c.Record)
		}
		if c.Version == upTo {
			return changes, nil
		}
	}
	return nil, errors.New("the watch has ended")
}

func TestWatchFallingBehindExpires(t *testing.T) {
	db := newMemory(2)
	putRaw(t, db, rawKind, "a", false)
	var last error
	for c, err := range db.Watch(t.Context(), rawKind, backend.Query{}, 0) {
		if last = err; err != nil {
			break
		}
		require.EqualValues(t, 1, c.Version, "the changes after it were dropped")
		for range 3 {
			putRaw(t, db, rawKind, "a", false)
		}
	}
	assert.EqualError(t, last, "version is no longer in the history of the source: version 1 is too old, the first to start from is 2")
}

// The error of a store says where a watch can start.
func TestExpiryNamesFirstVersionOfHistory(t *testing.T) {
	db, apps := newApps(t, store.MemoryConfig{History: 2})
	for range 5 {
		putRaw(t, db, "app", "a", true)
	}
	for after, have := range map[informer.Version]informer.Version{1: 3, 9: 3} {
		var e *store.Error
		require.ErrorAs(t, firstOf(apps, after), &e)
		assert.Equal(t, []informer.Version{have, after}, []informer.Version{e.Have, e.Want})
	}
}

func TestBookmarksCoverFilteredChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemory(10)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		type change struct {
			at      time.Duration
			version informer.Version
			key     string
		}
		var changes []change
		watched := make(chan error)
		go func() { // ends with ctx
			var last error
			for c, err := range db.Watch(ctx, rawKind, backend.Query{Prefix: "a"}, 0) {
				if last = err; err == nil {
					changes = append(changes, change{time.Since(begin), c.Version, c.Record.Key})
				}
			}
			watched <- last
		}()
		synctest.Wait()
		putRaw(t, db, "raw2", "x", false) // a bookmark at once
		synctest.Wait()
		putRaw(t, db, "raw2", "x", false)  // and the next one after the pause
		putRaw(t, db, rawKind, "b", false) // which this watch does not yield either
		synctest.Wait()
		putRaw(t, db, rawKind, "a", false) // a change comes at once all the same
		time.Sleep(time.Second)
		putRaw(t, db, "raw2", "x", false)
		time.Sleep(backend.BookmarkInterval)
		cancel(cause)
		assert.ErrorIs(t, <-watched, cause)
		assert.Equal(t, []change{
			{0, 1, ""}, {0, 4, "a"}, {time.Second, 5, ""}, {1100*time.Millisecond + backend.BookmarkInterval/2, 5, ""},
		}, changes)
	})
}

func TestTombstoneIsRemovedWithHistory(t *testing.T) {
	db := newMemory(2)
	get := func(key string) backend.Record {
		r, err := db.Get(t.Context(), rawKind, key)
		require.NoError(t, err)
		return r
	}
	putRaw(t, db, rawKind, "a", false)
	deleted := putRaw(t, db, rawKind, "a", true)
	assert.Equal(t, deleted, get("a"))
	putRaw(t, db, rawKind, "b", false)
	assert.Equal(t, deleted, get("a"), "as long as it is in the history")
	putRaw(t, db, rawKind, "b", false)
	assert.Zero(t, get("a"))
	putRaw(t, db, rawKind, "b", true)
	again := putRaw(t, db, rawKind, "b", false)
	putRaw(t, db, rawKind, "c", false)
	putRaw(t, db, rawKind, "c", false)
	assert.Equal(t, again, get("b"), "the history drops the tombstone, but not its replacement")
	require.NoError(t, db.CheckInvariants())
}

func TestTransactDecidesAgainAfterAnotherWrite(t *testing.T) {
	db := newMemory(10)
	putRaw(t, db, rawKind, "a", false)
	fence := func(term uint64) []backend.Fence { return []backend.Fence{{Lease: "l", Term: term}} }
	calls := 0
	decided := &backend.Record{Value: []byte("raw"), Version: 77}
	r, err := db.Transact(t.Context(), rawKind, "a", fence(5), func(have backend.Record) (*backend.Record, error) {
		if calls++; calls == 1 { // another writer is faster
			assert.EqualValues(t, 1, have.Version)
			putRaw(t, db, rawKind, "a", false)
			assert.Zero(t, db.Term("l"))
		}
		return decided, nil
	})
	require.NoError(t, err)
	assert.Equal(t, backend.Record{Key: "a", Version: 3, Value: []byte("raw")}, r)
	assert.EqualValues(t, 77, decided.Version, "the record belongs to decide")
	assert.Equal(t, 2, calls)
	assert.EqualValues(t, 5, db.Term("l"))
	nothing := func(backend.Record) (*backend.Record, error) { return nil, nil }
	same, err := db.Transact(t.Context(), rawKind, "a", fence(6), nothing)
	require.NoError(t, err)
	assert.Equal(t, r, same)
	assert.EqualValues(t, 6, db.Term("l"), "a write that changes nothing records its term")
	_, err = db.Transact(t.Context(), rawKind, "a", fence(5), nothing)
	require.ErrorIs(t, err, backend.ErrFenced)
	require.NoError(t, db.CheckInvariants())
}

// The term becomes stale while decide runs.
func TestTransactChecksFenceAgainAtTheEnd(t *testing.T) {
	db := newMemory(10)
	fence := func(term uint64) []backend.Fence { return []backend.Fence{{Lease: "l", Term: term}} }
	_, err := db.Transact(t.Context(), rawKind, "a", fence(5), func(backend.Record) (*backend.Record, error) {
		_, err := db.Transact(t.Context(), rawKind, "b", fence(6), func(backend.Record) (*backend.Record, error) { return nil, nil })
		require.NoError(t, err)
		return &backend.Record{}, nil
	})
	require.ErrorIs(t, err, backend.ErrFenced)
	r, err := db.Get(t.Context(), rawKind, "a")
	require.NoError(t, err)
	assert.Zero(t, r)
}
