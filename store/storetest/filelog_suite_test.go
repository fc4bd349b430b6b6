//go:build unix

package storetest_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// handle opens a handle of the log at path until the test ends.
func handle(t *testing.T, path string) *fileLog {
	t.Helper()
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("l.Close(): %v", err)
		}
	})
	return l
}

func TestFileLogPassesSuiteThroughTwoHandles(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "log")
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
	if err != nil {
		t.Fatal(err)
	}
	_, err = put(t, one, "a", "2", backend.Fence{Lease: "shop", Term: 7})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := int(first.Version); size <= len(whole); size++ {
		for _, broken := range []bool{false, true} { // the size may grow before the bytes are there
			torn := append([]byte(nil), whole[:size]...)
			if broken {
				torn = append(torn, make([]byte, len(whole)-size)...)
			}
			if len(torn) == len(whole) && string(torn) == string(whole) {
				continue
			}
			path := filepath.Join(t.TempDir(), "torn")
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			reader, writer := handle(t, path), handle(t, path)
			got, err := reader.Get(t.Context(), "app", "a")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, got); diff != "" {
				t.Errorf("got mismatch (-want +got):\n%s", diff)
			}
			next, err := put(t, writer, "a", "3", backend.Fence{Lease: "shop", Term: 6})
			if err != nil {
				t.Fatalf("the term 7 went with its write: %v", err)
			}
			got, err = reader.Get(context.Background(), "app", "a")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(next, got); diff != "" {
				t.Errorf("got mismatch (-want +got):\n%s", diff)
			}
			if len(torn) > int(first.Version) {
				if writer.cuts != 1 {
					t.Errorf("writer.cuts = %v, want 1", writer.cuts)
				}
			}
		}
	}
}

// The remainder of a torn long write may look like a separate write, starting at the end of the next one.
func TestTruncatedWriteDoesNotReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	ghost := handle(t, path)
	_, err := put(t, ghost, "ghost", "1")
	if err != nil {
		t.Fatal(err)
	}
	frame, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	path = filepath.Join(t.TempDir(), "torn")
	if err := os.WriteFile(path, append(bytes.Repeat([]byte{0xff}, len(frame)), frame...), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := put(t, handle(t, path), "other", "1")
	if err != nil {
		t.Fatal(err)
	}
	if int(next.Version) != len(frame) {
		t.Fatalf("next.Version = %d, want %d: it ends where the frame in the rest begins", next.Version, len(frame))
	}
	got, err := handle(t, path).Get(t.Context(), "app", "ghost")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(backend.Record{}, got); diff != "" {
		t.Errorf("got mismatch (-want +got):\n%s", diff)
	}
}
