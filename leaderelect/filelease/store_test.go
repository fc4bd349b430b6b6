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
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
)

func TestStoreConformsToLeaseStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		t.Parallel()
		dir := fastDir(t)
		return leasetest.Backend{
			Store:  openFiles(t, dir),
			Reopen: func() leaderelect.LeaseStore { return openFiles(t, dir) },
			Delete: func(key string) {
				if err := os.RemoveAll(filepath.Join(dir, key+".d")); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestRecordDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openFiles(t, t.TempDir())
		want, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 3})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(365 * 24 * time.Hour)
		got, err := s.Get(t.Context(), "lease")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("got mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestRestoredDirectoryKeepsItsUniqueVersion(t *testing.T) {
	s := openFiles(t, t.TempDir())
	dir, backup := filepath.Join(s.dir, "lease.d"), filepath.Join(t.TempDir(), "backup")
	first, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	second, err := s.Update(context.Background(), first)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	again, err := s.Update(context.Background(), first)
	if err != nil {
		t.Fatal(err)
	}
	if again.Version == second.Version {
		t.Errorf("again.Version = %q, want another", again.Version)
	}

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	anew, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ([]string{first.Version, second.Version, again.Version}); slices.Contains(got, anew.Version) {
		t.Errorf("[]string{first.Version, second.Version, again.Version} = %v, want it not to contain %v", got, anew.Version)
	}
}

func TestFilesStayInDirectoryWithReadableNames(t *testing.T) {
	s := openFiles(t, t.TempDir())
	for key, name := range map[string]string{
		"shop-controller": "shop-controller", "shop/v1.2": "shop%2fv1.2", "../up": "%2e.%2fup", "Shop": "%53hop", "": "~",
	} {
		_, err := s.Create(context.Background(), leaderelect.Entry{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(s.dir, name+".d", "00000000000000000001.lease")); err != nil {
			t.Errorf("the file of %q: %v", key, err)
		}
	}
	for _, long := range []string{strings.Repeat("k", 10_000), strings.Repeat("/", 10_000)} {
		_, err := s.Create(context.Background(), leaderelect.Entry{Key: long})
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 7 {
		t.Errorf("a directory for each key, and no leftovers: len(made) = %d, want 7: %v", len(made), made)
	}
}

func TestFileNamesEncodeKeys(t *testing.T) {
	for _, key := range []string{"a", "shop/v1.2", "../up", "Shop", "100%", "a\x00\xff", ".", "a~b"} {
		s := openFiles(t, t.TempDir())
		_, err := s.Create(t.Context(), leaderelect.Entry{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		made, err := os.ReadDir(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		back, ok := filelease.KeyOfFileName(strings.TrimSuffix(made[0].Name(), ".d"))
		if !ok {
			t.Fatalf("%v: ok is false", key)
		}
		if back != key {
			t.Errorf("back = %q, want %q", back, key)
		}
	}
	for _, name := range []string{"%", "%zz", "A", "%41b%", "%2F", "a+b", "~", ".a"} {
		_, ok := filelease.KeyOfFileName(name)
		if ok {
			t.Errorf("%v: ok is true", name)
		}
	}
}

func TestNewRejectsUnwritableDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // whom permissions do not stop
		if dir = "/proc/self"; runtime.GOOS != "linux" {
			t.Skip("root can write anywhere")
		}
	}
	_, err := filelease.New(dir)
	if got, want := fmt.Sprint(err), fmt.Sprintf("filelease: open %q: open ", dir); !strings.Contains(got, want) {
		t.Fatalf("err = %q, want an error that contains %q", got, want)
	}
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
		if err := filelease.Prepare(dir, sync); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(synced, want) {
			t.Errorf("synced = %q, want %q", synced, want)
		}
	}
	err := filelease.Prepare(filepath.Join(top, "b"), func(string) error { return fs.ErrInvalid })
	if !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("err = %v, want %v", err, fs.ErrInvalid)
	}
}

func TestNewLeavesDirectoryEmpty(t *testing.T) {
	s := openFiles(t, t.TempDir())
	made, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 0 {
		t.Errorf("made = %v, want none", made)
	}
}

func TestDirectoryCreationErrorIsReturned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := filelease.New(filepath.Join(file, "leases"))
	if got := fmt.Sprint(err); !strings.Contains(got, "mkdir") {
		t.Fatalf("err = %q, want an error that contains %q", got, "mkdir")
	}
}

func TestMissingDirectoryIsNamedInError(t *testing.T) {
	s := openFiles(t, t.TempDir())
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	if err != nil {
		t.Fatal(err)
	}
	s.OnStep(func(string) {
		s.OnStep(nil) // "looked": the write has found the record, and cannot find it again
		if err := os.RemoveAll(s.dir); err != nil {
			t.Fatal(err)
		}
	})
	_, err = s.Update(t.Context(), have)
	if err == nil {
		t.Fatal("err = nil, want an error")
	}
	_, err = s.List(t.Context(), "")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("err = %v, want %v", err, fs.ErrNotExist)
	}
	if got := fmt.Sprint(err); !strings.Contains(got, s.dir) {
		t.Fatalf("err = %q, want an error that contains %q", got, s.dir)
	}
	_, err = s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("err = %v, want %v", err, fs.ErrNotExist)
	}
	if got := fmt.Sprint(err); !strings.Contains(got, "mkdir") {
		t.Fatalf("err = %q, want an error that contains %q", got, "mkdir")
	}
}

func TestFileInPlaceOfRecordDirectoryIsAnError(t *testing.T) {
	s := openFiles(t, t.TempDir())
	if err := os.WriteFile(filepath.Join(s.dir, "lease.d"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "lease")
	if err == nil {
		t.Fatal("err = nil, want an error")
	}
	if errors.Is(err, leaderelect.ErrNotFound) {
		t.Fatalf("err = %v, want another error", err)
	}
}

func TestForeignFilesAreIgnored(t *testing.T) {
	s := openFiles(t, t.TempDir())
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00000000000000000007", "99999999999999999999999.lease", "x.lease", "0.lease", "7.lease"} {
		if err := os.WriteFile(filepath.Join(s.dir, "lease.d", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // only if Get looks for a file that does not exist
	defer cancel()
	got, err := s.Get(ctx, "lease")
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != have.Version {
		t.Errorf("got.Version = %q, want %q", got.Version, have.Version)
	}
}

func TestWriteErrorNamesItsCause(t *testing.T) {
	s := openFiles(t, t.TempDir())
	if err := os.Symlink("nowhere", filepath.Join(s.dir, "lease.d")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("err = %v, want %v", err, fs.ErrNotExist)
	}
}

func TestLastOldRecordsAreKept(t *testing.T) {
	s := openFiles(t, fastDir(t))
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
	if err != nil {
		t.Fatal(err)
	}
	update := func(times int) {
		for range times {
			have, err = s.Update(t.Context(), have)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() []string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(s.dir, "lease.d", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	update(99)
	if got := left(); len(got) != 1+64 {
		t.Errorf("len(left()) = %d, want %d: %v", len(got), 1+64, got)
	}

	old := time.Now().Add(-time.Minute)
	for _, file := range left() {
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	update(1)
	if got := left(); len(got) != 1+4 {
		t.Errorf("old ones that are older than ten seconds: len(left()) = %d, want %d: %v", len(got), 1+4, got)
	}
}

// files is a Store that knows its directory.
type files struct {
	*filelease.Store
	dir string
}

func openFiles(t testing.TB, dir string) files {
	t.Helper()
	s, err := filelease.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files{s, dir}
}
