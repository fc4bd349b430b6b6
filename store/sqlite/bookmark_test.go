package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// A watch that polls once an hour is still not silent for longer than BookmarkInterval.
func TestBookmarksDoNotWaitForPoll(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	synctest.Test(t, func(t *testing.T) {
		db := open(t, path, sqlite.Config{Poll: time.Hour})
		last, bookmarks := time.Now(), 0
		for c, err := range db.Watch(t.Context(), "app", backend.Query{}, 0) {
			require.NoError(t, err)
			require.Zero(t, c.Record)
			assert.LessOrEqual(t, time.Since(last), backend.BookmarkInterval)
			if last = time.Now(); bookmarks == 3 {
				break
			}
			bookmarks++
		}
	})
}

// Writes of the same Backend wake its watches, whether they have a transaction of their own or share one.
func TestOwnWritesDoNotWaitForPoll(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	synctest.Test(t, func(t *testing.T) {
		db := open(t, path, sqlite.Config{Poll: time.Hour})
		_, err := dbtest.Put(t.Context(), db, "a", "1")
		require.NoError(t, err)
		begin := time.Now()
		var reported []string
		for c, err := range db.Watch(t.Context(), "app", backend.Query{}, 0) {
			require.NoError(t, err)
			switch reported = append(reported, string(c.Record.Value)); len(reported) {
			case 1:
				_, err := dbtest.Put(t.Context(), db, "a", "2")
				require.NoError(t, err)
			case 2:
				putInTurn(t, db, "a", "3")
			}
			if len(reported) == 3 {
				break
			}
		}
		assert.Equal(t, []string{"1", "2", "3"}, reported)
		assert.Less(t, time.Since(begin), time.Second)
	})
}

// putInTurn writes a record while another writer of db, which then writes nothing, has the transaction.
func putInTurn(t *testing.T, db *sqlite.Backend, key, value string) {
	var g sync.WaitGroup
	began, decided, leave := make(chan struct{}), make(chan struct{}), make(chan struct{})
	g.Go(func() {
		_, err := db.Transact(t.Context(), "app", "other", nil, func(backend.Record) (*backend.Record, error) {
			close(began)
			<-leave
			return nil, nil
		})
		assert.NoError(t, err)
	})
	<-began
	g.Go(func() {
		once := sync.OnceFunc(func() { close(decided) })
		_, err := db.Transact(t.Context(), "app", key, nil, func(backend.Record) (*backend.Record, error) {
			once()
			return &backend.Record{Value: []byte(value)}, nil
		})
		assert.NoError(t, err)
	})
	<-decided
	close(leave)
	g.Wait()
}
