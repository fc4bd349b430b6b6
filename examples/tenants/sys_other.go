//go:build !unix

package main

import "errors"

// suspends reports whether a process can be suspended on this system.
const suspends = false

func suspend(int) error { return errors.ErrUnsupported }
func resume(int) error  { return errors.ErrUnsupported }
