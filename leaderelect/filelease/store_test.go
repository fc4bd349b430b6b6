//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelease_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/retry"
)

func TestStoreConformsToLeaseStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		t.Parallel()
		dir := looptest.MemoryDir(t)
		return leasetest.Backend{
			Store:  openFiles(t, dir),
			Reopen: func() leaderelect.LeaseStore { return openFiles(t, dir) },
			Delete: func(key string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, key+".d"))) },
		}
	})
}

func TestRecordDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openFiles(t, t.TempDir())
		want, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 3})
		require.NoError(t, err)
		time.Sleep(365 * 24 * time.Hour)
		got, err := s.Get(t.Context(), "lease")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestRestoredDirectoryKeepsItsUniqueVersion(t *testing.T) {
	s := openFiles(t, t.TempDir())
	dir, backup := filepath.Join(s.dir, "lease.d"), filepath.Join(t.TempDir(), "backup")
	first, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease"})
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(backup, os.DirFS(dir)))
	second, err := s.Update(context.Background(), first)
	require.NoError(t, err)

	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.CopyFS(dir, os.DirFS(backup)))
	again, err := s.Update(context.Background(), first)
	require.NoError(t, err)
	assert.NotEqual(t, second.Version, again.Version)

	require.NoError(t, os.RemoveAll(dir))
	anew, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease"})
	require.NoError(t, err)
	assert.NotContains(t, []string{first.Version, second.Version, again.Version}, anew.Version)
}

func TestFilesStayInDirectoryWithReadableNames(t *testing.T) {
	s := openFiles(t, t.TempDir())
	for key, name := range map[string]string{
		"shop-controller": "shop-controller", "shop/v1.2": "shop%2fv1.2", "../up": "%2e.%2fup", "Shop": "%53hop", "": "~",
	} {
		_, err := s.Create(context.Background(), leaderelect.Entry{Key: key})
		require.NoError(t, err)
		assert.FileExists(t, filepath.Join(s.dir, name+".d", "00000000000000000001.lease"), key)
	}
	for _, long := range []string{strings.Repeat("k", 10_000), strings.Repeat("/", 10_000)} {
		_, err := s.Create(context.Background(), leaderelect.Entry{Key: long})
		require.NoError(t, err)
	}
	made, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	assert.Len(t, made, 7, "a directory for each key, and no leftovers")
}

func TestFileNamesEncodeKeys(t *testing.T) {
	for _, key := range []string{"a", "shop/v1.2", "../up", "Shop", "100%", "a\x00\xff", ".", "a~b"} {
		s := openFiles(t, t.TempDir())
		_, err := s.Create(t.Context(), leaderelect.Entry{Key: key})
		require.NoError(t, err)
		made, err := os.ReadDir(s.dir)
		require.NoError(t, err)
		back, ok := filelease.KeyOfFileName(strings.TrimSuffix(made[0].Name(), ".d"))
		require.True(t, ok, key)
		assert.Equal(t, key, back)
	}
	for _, name := range []string{"%", "%zz", "A", "%41b%", "%2F", "a+b", "~", ".a"} {
		_, ok := filelease.KeyOfFileName(name)
		assert.False(t, ok, name)
	}
}

func TestNewRejectsUnwritableDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	require.NoError(t, os.Mkdir(dir, 0o555))
	if os.Geteuid() == 0 { // whom permissions do not stop
		if dir = "/proc/self"; runtime.GOOS != "linux" {
			t.Skip("root can write anywhere")
		}
	}
	_, err := filelease.New(dir)
	require.ErrorContains(t, err, fmt.Sprintf("filelease: open %q: open ", dir))
}

// Otherwise the directory may be missing after a crash of the machine, with all that was acknowledged.
func TestNewSyncsNamesOfDirectoriesThatItCreates(t *testing.T) {
	top := t.TempDir()
	below := filepath.Join(top, "a")
	dir := filepath.Join(below, "leases")
	var synced []string
	sync := func(path string) error { synced = append(synced, path); return nil }
	for _, want := range [][]string{{top, below, dir}, {dir}} { // the second time, all exist
		synced = nil
		require.NoError(t, filelease.Prepare(dir, sync))
		assert.Equal(t, want, synced)
	}
	err := filelease.Prepare(filepath.Join(top, "b"), func(string) error { return fs.ErrInvalid })
	assert.ErrorIs(t, err, fs.ErrInvalid)
}

func TestNewLeavesDirectoryEmpty(t *testing.T) {
	s := openFiles(t, t.TempDir())
	made, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	assert.Empty(t, made)
}

func TestDirectoryCreationErrorIsReturned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := filelease.New(filepath.Join(file, "leases"))
	require.ErrorContains(t, err, "mkdir")
}

func TestMissingDirectoryIsNamedInError(t *testing.T) {
	s := openFiles(t, t.TempDir())
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	require.NoError(t, err)
	s.OnStep(func(string) {
		s.OnStep(nil) // "looked": the write has found the record, and cannot find it again
		require.NoError(t, os.RemoveAll(s.dir))
	})
	_, err = s.Update(t.Context(), have)
	require.Error(t, err)
	_, err = s.List(t.Context(), "")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, s.dir)
	_, err = s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "mkdir")
}

func TestFileInPlaceOfRecordDirectoryIsAnError(t *testing.T) {
	s := openFiles(t, t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "lease.d"), nil, 0o644))
	_, err := s.Get(t.Context(), "lease")
	require.Error(t, err)
	require.NotErrorIs(t, err, leaderelect.ErrNotFound)
}

func TestForeignFilesAreIgnored(t *testing.T) {
	s := openFiles(t, t.TempDir())
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 3})
	require.NoError(t, err)
	for _, name := range []string{"00000000000000000007", "99999999999999999999999.lease", "x.lease", "0.lease", "7.lease"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "lease.d", name), nil, 0o644))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // only if Get looks for a file that does not exist
	defer cancel()
	got, err := s.Get(ctx, "lease")
	require.NoError(t, err)
	assert.Equal(t, have.Version, got.Version)
}

func TestWriteErrorNamesItsCause(t *testing.T) {
	s := openFiles(t, t.TempDir())
	require.NoError(t, os.Symlink("nowhere", filepath.Join(s.dir, "lease.d")))
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestLastOldRecordsAreKept(t *testing.T) {
	s := openFiles(t, looptest.MemoryDir(t))
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	require.NoError(t, err)
	update := func(times int) {
		for range times {
			have, err = s.Update(t.Context(), have)
			require.NoError(t, err)
		}
	}
	left := func() []string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(s.dir, "lease.d", "*"))
		require.NoError(t, err)
		return files
	}
	update(99)
	assert.Len(t, left(), 1+64)

	old := time.Now().Add(-time.Minute)
	for _, file := range left() {
		require.NoError(t, os.Chtimes(file, old, old))
	}
	update(1)
	assert.Len(t, left(), 1+4, "old ones that are older than ten seconds")
}

// files is a Store that knows its directory.
type files struct {
	*filelease.Store
	dir string
}

func openFiles(t testing.TB, dir string) files {
	t.Helper()
	s, err := filelease.New(dir)
	require.NoError(t, err)
	return files{s, dir}
}

func TestErrorIsPermanentIfFilesMayNotBeUsed(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EACCES: true, syscall.EPERM: true, syscall.EROFS: true,
		syscall.ENOSPC: false, syscall.EIO: false, syscall.ENOENT: false, syscall.EMFILE: false,
	} {
		err := filelease.Marked(&fs.PathError{Op: "open", Path: "lease", Err: err})
		assert.Equal(t, want, retry.IsPermanent(err), "%v", err)
	}
	if os.Geteuid() == 0 {
		t.Skip("permissions do not stop root")
	}
	s := openFiles(t, t.TempDir())
	require.NoError(t, os.Chmod(s.dir, 0o555))
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	assert.True(t, retry.IsPermanent(err), "%v", err)
}

func TestCallAfterEndOfContextReturnsCause(t *testing.T) {
	cause := errors.New("the replica drains")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	s := openFiles(t, t.TempDir())
	_, err := s.Get(ctx, "lease")
	require.ErrorIs(t, err, cause)
	_, err = s.Create(ctx, leaderelect.Entry{Key: "lease"})
	require.ErrorIs(t, err, cause)
}
