package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// soon is how much later than its context a call may return on a busy machine. It is less than the BusyTimeout of these tests.
const soon = 5 * time.Second

// Another program has locked the whole file, as the last one to close it does.
func TestOpenOfLockedFileEndsWithContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	other, err := sql.Open("sqlite", path+"?_pragma=locking_mode(EXCLUSIVE)")
	require.NoError(t, err)
	other.SetMaxOpenConns(1)
	_, err = other.Exec("CREATE TABLE locked (a)")
	require.NoError(t, err)
	for _, existing := range []bool{false, true} {
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
		begin := time.Now()
		_, err = sqlite.Open(ctx, path, sqlite.Config{Existing: existing, BusyTimeout: 2 * soon})
		assert.ErrorIs(t, err, gone, "Existing is %v", existing)
		assert.Less(t, time.Since(begin), soon, "Existing is %v", existing)
		cancel()
	}
	require.NoError(t, other.Close())
	open(t, path, sqlite.Config{Existing: true})
}

// Writers, readers, and watches are in flight when the Backend is closed. Some of the writers wait for another
// process.
func TestCloseEndsCallsInFlightAndLosesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	other := open(t, path, sqlite.Config{})
	for round := range 10 {
		db, err := sqlite.Open(t.Context(), path, sqlite.Config{BusyTimeout: time.Hour})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var g sync.WaitGroup
		var mu sync.Mutex
		acknowledged := make(map[string]string)
		first := make(chan struct{}) // closed after an acknowledged write
		once := sync.OnceFunc(func() { close(first) })
		for w := range 4 {
			g.Go(func() { // ends with the first error
				defer once()
				for i := 0; ; i++ {
					key, value := fmt.Sprintf("%d-%d", round, w), fmt.Sprint(i)
					if _, err := dbtest.Put(ctx, db, key, value); err != nil {
						assert.NoError(t, ctx.Err(), "Close did not end a write")
						return
					}
					mu.Lock()
					acknowledged[key] = value
					mu.Unlock()
					once()
				}
			})
			g.Go(func() { // ends with an error
				var err error
				for _, err = range db.Watch(ctx, "app", backend.Query{}, 0) {
				}
				assert.Error(t, err)
				assert.NoError(t, ctx.Err(), "Close did not end a watch")
			})
			g.Go(func() { // ends with the first error
				for failed := false; !failed; {
					for _, err := range db.List(ctx, "app", backend.Query{}) {
						failed = err != nil
					}
				}
				assert.NoError(t, ctx.Err(), "Close did not end a list")
			})
		}
		for i := range 10 {
			_, err = dbtest.Put(ctx, other, "between", fmt.Sprint(i))
			require.NoError(t, err)
		}
		<-first
		behind := round%2 == 1
		var tx *sql.Tx
		if behind {
			tx, err = other.DB().BeginTx(ctx, nil)
			require.NoError(t, err)
		}
		assert.NoError(t, db.Close())
		assert.Error(t, db.DB().PingContext(ctx))
		g.Wait()
		if behind {
			require.NoError(t, tx.Rollback())
		}
		cancel() // not before, because it rolls back too
		assert.NotEmpty(t, acknowledged)
		for key, value := range acknowledged {
			r, err := other.Get(t.Context(), "app", key)
			require.NoError(t, err)
			have, want := 0, 0
			_, err = fmt.Sscan(string(r.Value)+" "+value, &have, &want)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, have, want, "%s: an acknowledged write is lost", key)
		}
	}
	sound(t, other)
}

// While a list reads a snapshot, later writes cannot leave the WAL. Afterward, the WAL is reused from its beginning.
func TestLongListKeepsWALOnlyWhileItRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db := open(t, path, sqlite.Config{Poll: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	defer watches.Wait()
	defer stop()
	for range 4 { // which read all the time
		watches.Go(func() { // ends with stop
			for range db.Watch(ctx, "app", backend.Query{}, 0) {
			}
		})
	}
	value := string(make([]byte, 4096))
	const writes = 1500
	write := func() (size int64) {
		for i := range writes {
			_, err := dbtest.Put(t.Context(), db, fmt.Sprint(i%10), value)
			require.NoError(t, err)
		}
		wal, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		return wal.Size()
	}
	write()
	before := write()
	var during int64
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.NoError(t, err)
		during = write()
	}
	after := write()
	t.Logf("the WAL has %d kB, %d kB after a long list, and %d kB later", before>>10, during>>10, after>>10)
	assert.Greater(t, during, before, "the list has kept later writes in the WAL")
	assert.LessOrEqual(t, after, during+during/4, "it does not grow any more")
}
