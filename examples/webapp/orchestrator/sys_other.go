//go:build !unix

package orchestrator

import (
	"errors"
	"io/fs"
	"os"
)

// The program needs the signals and the file locks of unix.

func notifyStatus(chan<- os.Signal) {}
func notifyHangup(chan<- os.Signal) {}
func survivePipes()                 {}
func mine(fs.FileInfo) bool         { return true }

func kill(int) error    { return errors.ErrUnsupported }
func suspend(int) error { return errors.ErrUnsupported }
func alive(int) bool    { return false }
