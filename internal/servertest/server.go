//go:build linux

package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// patience limits how long a server may take to become ready.
const patience = 30 * time.Second

// Server is the process of a server. Its methods are for the goroutine of the test.
type Server struct {
	t        testing.TB
	addr     string
	command  func() *exec.Cmd
	ready    func() error
	shutdown os.Signal // stops it gracefully
	running  *exec.Cmd
	exited   chan struct{} // closed when running has ended
	log      string        // a file
	wrong    time.Duration // the wall clock, of a command of OwnClock
	clockAt  int64         // the address of the number of seconds in the process

	data string               // the directory of the data, of Postgres and MariaDB
	attr *syscall.SysProcAttr // of the programs that work on that directory
}

// Addr returns the address at which the server listens, as 127.0.0.1:5432. A restart keeps it.
func (s *Server) Addr() string { return s.addr }

// Program returns the path of an installed program. If it is not installed, the test is skipped or fails; install is the
// name of the package that has it.
func Program(t testing.TB, name, install string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, elsewhere := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/"} {
		if paths, _ := filepath.Glob(elsewhere + name); len(paths) > 0 {
			return paths[len(paths)-1]
		}
	}
	missing(t, name, install)
	return ""
}

// Library returns the path of an installed library that is loaded into a program. If it is not installed, the test is skipped
// or fails; install is the name of the package that has it.
func Library(t testing.TB, name, install string) string {
	t.Helper()
	if paths, _ := filepath.Glob("/usr/lib/*/*/" + name); len(paths) > 0 {
		return paths[0]
	}
	missing(t, name, install)
	return ""
}

// missing skips the test, or ends it.
func missing(t testing.TB, name, install string) {
	t.Helper()
	why := fmt.Sprintf("%s is not installed: apt-get install %s", name, install)
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// FreeAddr returns an address of this host at which no process listens. The system does not assign the port to outgoing connections or to
// listeners without a port. Otherwise, one of these could take the port before the server does, or while the server is down.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.N(20_000)))
		if l, err := net.Listen("tcp", addr); err == nil {
			must(t, l.Close())
			return addr
		}
	}
	t.Fatal("no port between 10000 and 30000 is free")
	return ""
}

// Start starts a server and waits until ready returns nil. command returns a new command for each start.
func Start(t testing.TB, addr string, command func() *exec.Cmd, ready func() error) *Server {
	t.Helper()
	s := &Server{t: t, addr: addr, command: command, ready: ready, shutdown: syscall.SIGINT, log: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(s.Kill)
	s.Start()
	return s
}

// DaemonDir returns an empty directory that belongs to a user other than root, because Postgres and MariaDB refuse to run as root. It also returns the
// attributes that a process needs to run as that user and to end with the test.
func DaemonDir(t testing.TB) (string, *syscall.SysProcAttr) {
	t.Helper()
	return daemonDirIn(t, fastDir())
}

func daemonDirIn(t testing.TB, parent string) (string, *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "servertest")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		return dir, attr
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	must(t, err)
	uid, err := strconv.Atoi(who.Uid)
	must(t, err)
	gid, err := strconv.Atoi(who.Gid)
	must(t, err)
	must(t, os.Chown(dir, uid, gid))
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return dir, attr
}

// fastDir returns the directory for temporary files: one in memory, if that has room for many servers, because no test cuts the power.
func fastDir() string {
	const memory, room = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return os.TempDir()
	}
	return memory
}

// Start starts a server that was killed, and waits until it is ready. A server that has just been killed may refuse to
// start for a moment, so Start tries again.
func (s *Server) Start() {
	s.t.Helper()
	end := time.Now().Add(patience)
	for {
		s.launch()
		for alive := true; alive; {
			if s.ready() == nil {
				return
			}
			select {
			case <-s.exited:
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

func (s *Server) launch() {
	s.t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(s.t, err)
	c := s.command()
	c.Dir, c.Stdout, c.Stderr = "/", log, log
	start := c.Start
	if c.SysProcAttr != nil && c.SysProcAttr.Ptrace {
		start = func() error { return s.startStopped(c) }
	}
	must(s.t, errors.Join(start(), log.Close()))
	exited := make(chan struct{})
	go func() { // reaps the process, and ends with it
		_ = c.Wait()
		close(exited)
	}()
	s.running, s.exited = c, exited
}

// Kill kills the server, as kill -9 does, and waits until it has ended.
func (s *Server) Kill() {
	if s.running != nil {
		_ = s.running.Process.Kill()
		<-s.exited
		s.running = nil
	}
}

// Stop stops the server gracefully, and waits until it has ended.
func (s *Server) Stop() {
	if s.running != nil {
		_ = s.running.Process.Signal(s.shutdown)
		<-s.exited
		s.running = nil
	}
}

// AwaitEnd waits until the server has ended by itself.
func (s *Server) AwaitEnd() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatalf("the server still runs after %v", patience)
	}
}

// Revive starts the server if it has ended by itself.
func (s *Server) Revive() {
	s.t.Helper()
	select {
	case <-s.exited:
		s.Start()
	default:
	}
}

// Restart kills the server and starts it again.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Start()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
