//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package machine

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// supported returns nil: this system has flock, signals and sessions.
func supported() error { return nil }

// lockExclusive takes the exclusive lock on f, for all that share this open file. It returns false if another open file
// holds a lock.
func lockExclusive(f *os.File) (bool, error) { return lock(f, syscall.LOCK_EX) }

// lockShared takes the shared lock on f. It returns false if another open file holds the exclusive lock.
func lockShared(f *os.File) (bool, error) { return lock(f, syscall.LOCK_SH) }

func lock(f *os.File, how int) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// newSession returns the attributes of a process with its own session, and so its own process group. A process group
// alone is not enough: when its parent dies, the kernel sends SIGHUP to a group of the same session that has a
// suspended process.
func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// notifyExits relays exits of children to c.
func notifyExits(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCHLD) }

// exitStatus reaps a child and returns its exit status. It returns false while the child is alive, and does not wait.
func exitStatus(pid int) (string, bool) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err.Error(), true // not ours any more
		case got == 0:
			return "", false
		case status.Signaled():
			return "signal: " + status.Signal().String(), true
		default:
			return fmt.Sprintf("exit status %d", status.ExitStatus()), true
		}
	}
}
