package sqlite_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/writers"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

var cycles = flag.Int("cycles", 5, "how often each fault happens")

// manyChanges is a history that holds a whole test.
var manyChanges = sqlite.Config{History: 1_000_000}

// TestMain makes the test binary a writer process if the environment says so.
func TestMain(m *testing.M) {
	writers.Main(func(ctx context.Context, path string) (backend.Backend, error) {
		return sqlite.Open(ctx, path, manyChanges)
	})
	os.Exit(m.Run())
}

// Two processes with two writers each write, and one of them is killed again and again. See package writers for what
// holds at the end.
func TestNoAcknowledgedWriteIsLostWhenAWriterIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, manyChanges)
	w := writers.Begin(t, db, path)
	w.Repeat(*cycles, w.KillWriter)
	changes := w.Check(open(t, path, manyChanges))
	var sound string
	require.NoError(t, db.DB().QueryRow("PRAGMA integrity_check").Scan(&sound))
	assert.Equal(t, "ok", sound)
	t.Logf("%d kills, %d writes acknowledged, %d changes", *cycles, w.Writes(), changes)
}
