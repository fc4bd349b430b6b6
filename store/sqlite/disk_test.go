//go:build linux

package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
)

// The file system of the file is full again and again, while two processes write.
func TestNoAcknowledgedWriteIsLostWhenTheDiskIsFull(t *testing.T) {
	t.Parallel()
	disk := servertest.NewDisk(t, (8<<20)*max(1, *cycles/4))
	path := filepath.Join(disk.Dir, "x.db")
	db := open(t, path, manyChanges)
	w := dbtest.BeginWriters(t, db, path)
	w.Repeat(*cycles, func() {
		disk.Fill()
		stuck := func() bool { // no write was acknowledged for a while
			before := w.Writes()
			time.Sleep(50 * time.Millisecond)
			return w.Writes() == before
		}
		require.Eventually(t, stuck, time.Minute, time.Millisecond)
		disk.Free()
	})
	changes := w.Check(open(t, path, manyChanges))
	sound(t, db)
	t.Logf("%d times, %d writes acknowledged, %d changes", *cycles, w.Writes(), changes)
}
