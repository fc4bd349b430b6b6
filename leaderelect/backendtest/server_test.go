//go:build linux

package backendtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long anything may take that has to happen.
const patience = 30 * time.Second

// server is a process that serves clients at an address.
type server struct {
	t       testing.TB
	addr    string
	command func() *exec.Cmd
	ready   func() error
	running *exec.Cmd
	log     string // a file
}

// program returns the path of a program, or skips the test.
func program(t testing.TB, name, install string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(paths) > 0 {
		return paths[len(paths)-1]
	}
	why := fmt.Sprintf("%s is not installed: apt-get install %s", name, install)
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// freeAddr returns an address of this host at which nobody listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// daemonDir returns an empty directory that belongs to a user who is not root, because Postgres refuses to be, and what a
// process needs to run as that user.
func daemonDir(t testing.TB) (string, *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "backendtest")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		return dir, attr
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	require.NoError(t, err)
	uid, err := strconv.Atoi(who.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(who.Gid)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, uid, gid))
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return dir, attr
}

// start starts the server and waits until it is ready. One that has just been killed may refuse to start for a moment.
func (s *server) start() {
	s.t.Helper()
	end := time.Now().Add(patience)
	for {
		s.running = s.command()
		s.running.Dir = "/"
		log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(s.t, err)
		s.running.Stdout, s.running.Stderr = log, log
		require.NoError(s.t, s.running.Start())
		require.NoError(s.t, log.Close())
		exited := make(chan struct{})
		go func(c *exec.Cmd) { // ends with the server
			_ = c.Wait()
			close(exited)
		}(s.running)
		for alive := true; alive; {
			if s.ready() == nil {
				return
			}
			select {
			case <-exited:
				alive = false
			case <-time.After(10 * time.Millisecond):
			}
			if time.Now().After(end) {
				text, _ := os.ReadFile(s.log)
				s.t.Fatalf("the server is not ready after %v:\n%s", patience, text)
			}
		}
	}
}

// kill kills the server, as kill -9 does.
func (s *server) kill() {
	if s.running != nil {
		_ = s.running.Process.Kill()
		s.running = nil
	}
}

// restart kills the server and starts it again.
func (s *server) restart() {
	s.t.Helper()
	s.kill()
	s.start()
}
