//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package leaderelect_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
)

func TestFileStoreIsALeaseStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		t.Parallel()
		dir := t.TempDir()
		return leasetest.Backend{
			Store:  openFiles(t, dir),
			Reopen: func() leaderelect.LeaseStore { return openFiles(t, dir) },
			Delete: func(key string) { require.NoError(t, os.Remove(filepath.Join(dir, key+".lease"))) },
		}
	})
}

func TestARecordInAFileDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { doesNotExpire(t, openFiles(t, t.TempDir())) })
}

func TestACallStopsWaitingForTheFileLockWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openFiles(t, t.TempDir())
		have, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease", Value: []byte("a")})
		require.NoError(t, err)
		unlock := s.lock(t, "lease")

		for name, call := range map[string]func(context.Context, leaderelect.Entry) (leaderelect.Entry, error){
			"Create": s.Create, "Update": s.Update,
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			begin := time.Now()
			_, err := call(ctx, have)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, leaderelect.ErrConflict, name)
			assert.Equal(t, 50*time.Millisecond, time.Since(begin), name)
			cancel()
		}
		got, err := s.Get(context.Background(), "lease") // needs no lock
		require.NoError(t, err)
		assert.Equal(t, have, got)

		time.AfterFunc(time.Second, unlock)
		begin := time.Now()
		_, err = s.Update(context.Background(), have)
		require.NoError(t, err)
		waited := time.Since(begin)
		assert.GreaterOrEqual(t, waited, time.Second)
		assert.LessOrEqual(t, waited, time.Second+8*time.Millisecond)
	})
}

func TestADamagedRecordIsNotTakenForAnAbsentOne(t *testing.T) {
	t.Parallel()
	s := openFiles(t, t.TempDir())
	_, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease", Value: []byte("a value\nof two lines"), Term: 7})
	require.NoError(t, err)
	path := filepath.Join(s.dir, "lease.lease")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)

	damaged := map[string][]byte{"a byte more": append(bytes.Clone(whole), 'x')}
	for n := 0; n < len(whole); n += 3 {
		damaged[fmt.Sprintf("cut at %d", n)] = whole[:n]
	}
	last := bytes.Clone(whole)
	last[len(last)-1] ^= 1
	damaged["a bit flipped"] = last
	damaged["another format"] = bytes.Replace(whole, []byte(`"format":1`), []byte(`"format":2`), 1)

	for what, data := range damaged {
		require.NoError(t, os.WriteFile(path, data, 0o644))
		_, err := s.Get(context.Background(), "lease")
		requireVague(t, err, what)
		_, err = s.Create(context.Background(), leaderelect.Entry{Key: "lease"})
		requireVague(t, err, what)
		_, err = s.Update(context.Background(), leaderelect.Entry{Key: "lease"})
		requireVague(t, err, what)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, left), "%s: the file was changed", what)
	}
}

func TestWhatAKilledWriterLeavesBehindDoesNoHarm(t *testing.T) {
	t.Parallel()
	// Every state between two records: the next one cut at any byte, or whole and not yet in place.
	dir := t.TempDir()
	s := openFiles(t, dir)
	first, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease", Value: []byte("first"), Term: 1})
	require.NoError(t, err)
	old, err := os.ReadFile(filepath.Join(dir, "lease.lease"))
	require.NoError(t, err)
	next := append(bytes.Clone(old), bytes.Repeat([]byte("longer"), 20)...)

	for n := 0; n <= len(next); n += len(next) / 9 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "lease.tmp"), next[:n], 0o644))
		fresh := openFiles(t, dir)
		got, err := fresh.Get(context.Background(), "lease")
		require.NoError(t, err)
		require.Equal(t, first, got)
		first.Value = first.Value[:3+n%3]
		first, err = fresh.Update(context.Background(), first)
		require.NoError(t, err)
		got, err = s.Get(context.Background(), "lease")
		require.NoError(t, err)
		require.Equal(t, first, got)
		first.Value = []byte("first")
		first, err = s.Update(context.Background(), first)
		require.NoError(t, err)
	}
}

func TestAFileThatIsRestoredKeepsItsVersionAndNoOtherGetsIt(t *testing.T) {
	s := openFiles(t, t.TempDir())
	path := filepath.Join(s.dir, "lease.lease")
	first, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease"})
	require.NoError(t, err)
	backup, err := os.ReadFile(path)
	require.NoError(t, err)
	second, err := s.Update(context.Background(), first)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, backup, 0o644))
	again, err := s.Update(context.Background(), first)
	require.NoError(t, err)
	assert.NotEqual(t, second.Version, again.Version)

	require.NoError(t, os.Remove(path))
	anew, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease"})
	require.NoError(t, err)
	assert.NotContains(t, []string{first.Version, second.Version, again.Version}, anew.Version)
}

func TestEveryFileStaysInTheDirectoryAndIsNamedForPeople(t *testing.T) {
	s := openFiles(t, t.TempDir())
	for key, name := range map[string]string{
		"shop-controller": "shop-controller", "shop/v1.2": "shop%2fv1.2", "../up": "%2e.%2fup", "Shop": "%53hop", "": "~",
	} {
		_, err := s.Create(context.Background(), leaderelect.Entry{Key: key})
		require.NoError(t, err)
		assert.FileExists(t, filepath.Join(s.dir, name+".lease"), key)
	}
	for _, long := range []string{strings.Repeat("k", 10_000), strings.Repeat("/", 10_000)} {
		_, err := s.Create(context.Background(), leaderelect.Entry{Key: long})
		require.NoError(t, err)
	}
	made, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	assert.Len(t, made, 2*7, "a record and a lock for each key, and nothing that is left over")
}

func TestADirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := leaderelect.NewFileStore(filepath.Join(file, "leases"))
	require.ErrorContains(t, err, "leases")
}

// files is a FileStore that knows its directory.
type files struct {
	*leaderelect.FileStore
	dir string
}

func openFiles(t testing.TB, dir string) files {
	t.Helper()
	s, err := leaderelect.NewFileStore(dir)
	require.NoError(t, err)
	return files{s, dir}
}

// lock holds the lock of a key, as another process would.
func (f files) lock(t testing.TB, key string) (unlock func()) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(f.dir, key+".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	return func() { _ = file.Close() }
}

// requireVague requires an error that is not definite.
func requireVague(t *testing.T, err error, what string) {
	t.Helper()
	require.Error(t, err, what)
	require.NotErrorIs(t, err, leaderelect.ErrNotFound, what)
	require.NotErrorIs(t, err, leaderelect.ErrConflict, what)
}

func TestAFileUnderTheNameOfAnotherKeyIsDamaged(t *testing.T) {
	s := openFiles(t, t.TempDir())
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "a", Value: []byte("v")})
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(s.dir, "a.lease"), filepath.Join(s.dir, "b.lease")))
	_, err = s.Get(t.Context(), "b")
	require.ErrorContains(t, err, `it has the key "a"`)
	require.NotErrorIs(t, err, leaderelect.ErrNotFound)
}

func TestAListOfFilesSkipsACopyUnderAnotherName(t *testing.T) {
	dir := t.TempDir()
	s := openFiles(t, dir)
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 1})
	require.NoError(t, err)
	old, err := os.ReadFile(filepath.Join(dir, "lease.lease"))
	require.NoError(t, err)
	for _, name := range []string{"backup.lease", "zzz.lease"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), old, 0o600))
	}
	have, err = s.Update(t.Context(), have)
	require.NoError(t, err)
	list, err := s.List(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, []leaderelect.Entry{have}, list)
}

func TestAListOfFilesSkipsWhatIsNoRecordAndFailsForOneThatIsDamaged(t *testing.T) {
	s := openFiles(t, t.TempDir())
	for _, k := range []string{"slot/1", "slot/0", "seat/0"} {
		_, err := s.Create(t.Context(), leaderelect.Entry{Key: k})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "notes.txt"), []byte("slot/9"), 0o600))
	list, err := s.List(t.Context(), "slot/")
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, "slot/0", list[0].Key)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "x.lease"), []byte("{"), 0o600))
	_, err = s.List(t.Context(), "slot/")
	require.ErrorContains(t, err, "damaged")
}
