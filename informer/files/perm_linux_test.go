package files_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// asNobody runs the test again as a user without rights, because root may read everything. It reports whether the caller is that user.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	program, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	dir := looptest.MemoryDir(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	copied := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(copied, program, 0o755))
	cmd := exec.Command(copied, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

func TestWhatIsForbiddenIsNotDeleted(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for _, forbidden := range []string{".", "d", "d/a.json", "d/deep"} {
		t.Run(forbidden, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, w *world) {
				w.write("d/a.json", site{"a", 1})
				w.write("d/deep/b.json", site{"b", 1})
				w.write("c.json", site{"c", 1})
				w.start()
				w.after(0)
				info, err := os.Stat(w.path(forbidden))
				require.NoError(t, err)
				require.NoError(t, os.Chmod(w.path(forbidden), 0))
				require.Empty(t, w.after(time.Minute))
				require.NoError(t, os.Chmod(w.path(forbidden), info.Mode()))
				require.Empty(t, w.after(time.Minute))
				require.NoError(t, w.cache.Missing())
				require.NoError(t, w.cache.Unread("a"))
				w.write("d/deep/b.json", site{"b", 2})
				w.remove("d/a.json")
				require.Equal(t, []string{"update b.1 to b.2", "delete a.1"}, w.after(time.Minute))
			})
		})
	}
}

// block makes every open of a file block, like a hanging file system, until release is called.
func (w *world) block(name string) (release func()) {
	w.t.Helper()
	f, err := os.OpenFile(w.path(name), os.O_RDWR, 0)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { f.Close() })
	lease := func(kind uintptr) {
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, kind); errno != 0 {
			w.t.Skip("this file system has no leases: ", errno)
		}
	}
	lease(syscall.F_WRLCK)
	return func() { lease(syscall.F_UNLCK) }
}

func TestReadThatHangsHoldsUpNothingElse(t *testing.T) {
	w := &world{t: t, dir: looptest.MemoryDir(t)}
	w.source = open(t, w.dir, files.Config[site]{ReadTimeout: 500 * time.Millisecond, Settle: time.Millisecond})
	w.write("a.json", site{"a", 1})
	w.write("b.json", site{"b", 1})
	require.Len(t, w.list().Items, 2)
	w.write("a.json", site{"a", 2})
	w.write("b.json", site{"b", 2})
	release := w.block("a.json")
	for range 2 {
		list := w.list()
		require.Equal(t, []site{{"a", 1}, {"b", 2}}, list.Items)
		require.Equal(t, []string{"files: a.json: it cannot be read in time"}, texts(list.Missing))
		require.Len(t, list.Unread, 1)
	}
	release()
	list := w.list()
	for len(list.Missing) > 0 { // until the read has ended
		list = w.list()
	}
	require.Equal(t, []site{{"a", 2}, {"b", 2}}, list.Items)
}
