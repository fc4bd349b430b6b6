package sqlite_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

var cycles = flag.Int("cycles", 3, "how often each fault happens")

// manyChanges is a history that holds a whole test, and fewChanges one that does not.
var (
	manyChanges = sqlite.Config{History: 1_000_000}
	fewChanges  = sqlite.Config{History: 50}
)

// TestMain makes the test binary a writer process if the environment says so.
func TestMain(m *testing.M) {
	tableWriterMain()
	dbtest.WriterMain(func(ctx context.Context, target string) (backend.Backend, error) {
		if path, trim := strings.CutPrefix(target, "trim "); trim {
			return sqlite.Open(ctx, path, fewChanges)
		}
		return sqlite.Open(ctx, target, manyChanges)
	})
	os.Exit(m.Run())
}

// Two processes with two writers each write, and one of them is killed again and again. See package writers for what
// holds at the end.
func TestNoAcknowledgedWriteIsLostWhenAWriterIsKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db := open(t, path, manyChanges)
	w := dbtest.BeginWriters(t, db, path)
	w.Repeat(*cycles, w.KillWriter)
	changes := w.Check(open(t, path, manyChanges))
	sound(t, db)
	t.Logf("%d kills, %d writes acknowledged, %d changes", *cycles, w.Writes(), changes)
}

// sound checks the file.
func sound(t testing.TB, db *sqlite.Backend) {
	t.Helper()
	var sound string
	require.NoError(t, db.DB().QueryRow("PRAGMA integrity_check").Scan(&sound))
	assert.Equal(t, "ok", sound)
}

// The history is trimmed while the watches are disconnected. Each one expires, and the informer lists again.
func TestNothingIsMissedWhenHistoryIsTrimmedDuringWatchGap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	away := dbtest.NewAway(open(t, path, fewChanges))
	w := dbtest.BeginWriters(t, away, "trim "+path)
	w.Repeat(*cycles, func() {
		away.Miss(t, func() { w.AwaitWrites(2 * fewChanges.History) })
	})
	w.Check(nil)
	t.Logf("%d times, %d writes acknowledged, %d watches expired", *cycles, w.Writes(), away.Expired())
}
