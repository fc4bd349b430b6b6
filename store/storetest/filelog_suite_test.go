//go:build unix

package storetest_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// handle opens a handle of the log at path until the test ends.
func handle(t *testing.T, path string) *fileLog {
	t.Helper()
	l, err := openLog(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// tempDir returns a directory until the test ends. It is in memory if the system has that, because a busy disk delays the tests.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "storetest")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestFileLogPassesSuiteThroughTwoHandles(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(tempDir(t), "log")
		return storetest.Database{
			Handles:   []backend.Backend{handle(t, path), handle(t, path)},
			Remembers: 1000, // and all others
		}
	})
}

// put writes a value through a handle.
func put(t *testing.T, l *fileLog, key, value string, fences ...backend.Fence) (backend.Record, error) {
	return l.Transact(t.Context(), "app", key, fences, func(backend.Record) (*backend.Record, error) {
		return &backend.Record{Meta: []byte("{}"), Value: []byte(value)}, nil
	})
}

// The last write may be torn at any byte when its writer dies. Readers see the write before it, and the next writer
// truncates the rest.
func TestPartialWriteIsDiscarded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	one := handle(t, path)
	first, err := put(t, one, "a", "1")
	require.NoError(t, err)
	_, err = put(t, one, "a", "2", backend.Fence{Lease: "shop", Term: 7})
	require.NoError(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for size := int(first.Version); size <= len(whole); size++ {
		for _, broken := range []bool{false, true} { // the size may grow before the bytes are there
			torn := append([]byte(nil), whole[:size]...)
			if broken {
				torn = append(torn, make([]byte, len(whole)-size)...)
			}
			if len(torn) == len(whole) && string(torn) == string(whole) {
				continue
			}
			path := filepath.Join(tempDir(t), "torn")
			require.NoError(t, os.WriteFile(path, torn, 0o600))
			reader, writer := handle(t, path), handle(t, path)
			got, err := reader.Get(t.Context(), "app", "a")
			require.NoError(t, err)
			assert.Equal(t, first, got)
			next, err := put(t, writer, "a", "3", backend.Fence{Lease: "shop", Term: 6})
			require.NoError(t, err, "the term 7 went with its write")
			got, err = reader.Get(context.Background(), "app", "a")
			require.NoError(t, err)
			assert.Equal(t, next, got)
			if len(torn) > int(first.Version) {
				assert.Equal(t, 1, writer.cuts)
			}
		}
	}
}

// The remainder of a torn long write may look like a separate write, starting at the end of the next one.
func TestTruncatedWriteDoesNotReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	ghost := handle(t, path)
	_, err := put(t, ghost, "ghost", "1")
	require.NoError(t, err)
	frame, err := os.ReadFile(path)
	require.NoError(t, err)

	path = filepath.Join(t.TempDir(), "torn")
	require.NoError(t, os.WriteFile(path, append(bytes.Repeat([]byte{0xff}, len(frame)), frame...), 0o600))
	next, err := put(t, handle(t, path), "other", "1")
	require.NoError(t, err)
	require.EqualValues(t, len(frame), next.Version, "it ends where the frame in the rest begins")
	got, err := handle(t, path).Get(t.Context(), "app", "ghost")
	require.NoError(t, err)
	assert.Zero(t, got)
}
