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

// lockExclusive takes the exclusive lock on f, for all that share this open file. It reports false when another open
// file holds a lock.
func lockExclusive(f *os.File) (bool, error) { return lock(f, syscall.LOCK_EX) }

// lockShared takes the shared lock on f. It reports false when another open file holds the exclusive lock.
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

// newSession returns the attributes of a process that has a session, and so a process group, of its own. A process
// group alone would not do: when its parent dies, the kernel hangs up on a group of the same session in which a process
// is suspended.
func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// notifyExits has c told about exits of children.
func notifyExits(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCHLD) }

// exitStatus takes the exit status of a child from the kernel. It reports false while the child is alive, and does not
// wait.
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
