//go:build !unix

package main

import (
	"errors"
	"os"
)

// The program needs the signals and the file locks of unix.

func notifyStatus(chan<- os.Signal) {}

func kill(int) error    { return errors.ErrUnsupported }
func suspend(int) error { return errors.ErrUnsupported }
func alive(int) bool    { return false }
