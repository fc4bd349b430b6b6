package manifest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// block makes every open of a file block, like a hanging file system, until release is called.
func (w *world) block(file string) (release func()) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.path, file), os.O_RDWR, 0)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { f.Close() })
	lease(w.t, f, syscall.F_WRLCK)
	return func() { lease(w.t, f, syscall.F_UNLCK) }
}

// lease takes or returns a lease on a file. The kernel holds up others who open it until it is returned.
func lease(t *testing.T, f *os.File, kind uintptr) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, kind); errno != 0 {
		t.Skip("this file system has no leases: ", errno)
	}
}

func TestBlockingFileDelaysNeitherOthersNorStop(t *testing.T) {
	w := open(t)
	var err error
	w.Dir, err = manifest.Open(w.path, manifest.Config{
		ReadTimeout: 10 * time.Millisecond,
		Report:      func(err error) { w.told = append(w.told, err.Error()) },
		Recovered:   func(file string) { w.told = append(w.told, "recovered "+file) },
	})
	require.NoError(t, err)
	w.write("a.json", app("a", 1))
	w.write("b.json", app("b", 2))
	release := w.block("a.json")

	// Nothing is known of a.json yet: without it, the app that it describes would seem to be deleted.
	_, err = w.List(t.Context())
	require.EqualError(t, err, "manifest: list: a.json: it cannot be read in time")
	release()
	for err != nil { // until the late read has ended
		_, err = w.List(t.Context())
	}
	w.lists("a:1 b:2")

	release = w.block("a.json")
	w.write("b.json", app("b", 3))
	w.lists("a:1 b:3", "manifest: a.json: it cannot be read in time")
	w.lists("a:1 b:3")
	release()
	for len(w.Problems()) > 0 {
		_, err = w.List(t.Context())
		require.NoError(t, err)
	}
}

func TestContextEndsBlockedRead(t *testing.T) {
	w := open(t)
	var err error
	w.Dir, err = manifest.Open(w.path, manifest.Config{ReadTimeout: time.Hour})
	require.NoError(t, err)
	w.write("a.json", app("a", 1))
	release := w.block("a.json")
	defer release()
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, cause)
	defer cancel()
	_, err = w.List(ctx)
	require.ErrorIs(t, err, cause)
}
