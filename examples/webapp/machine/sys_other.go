//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package machine

import (
	"errors"
	"os"
	"syscall"
)

// supported fails, and so does Open: a machine needs flock, signals and sessions. Nothing else here is ever called.
func supported() error { return errors.ErrUnsupported }

func lockExclusive(*os.File) (bool, error) { return false, errors.ErrUnsupported }
func lockShared(*os.File) (bool, error)    { return false, errors.ErrUnsupported }
func newSession() *syscall.SysProcAttr     { return nil }
func notifyExits(chan<- os.Signal)         {}
func exitStatus(int) (string, bool)        { return "", true }
