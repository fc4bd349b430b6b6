package sqlite_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// A watch that polls once an hour is still not silent for longer than BookmarkInterval.
func TestBookmarksDoNotWaitForPoll(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
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
