//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package replica

import (
	"errors"
	"os"
)

// claim fails: a record needs flock.
func claim(*os.File) error { return errors.ErrUnsupported }

// removed is never asked: claim has failed.
func removed(*os.File) bool { return false }
