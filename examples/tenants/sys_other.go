//go:build !unix

package main

import "errors"

// suspends says whether a process can be suspended here.
const suspends = false

func suspend(int) error { return errors.ErrUnsupported }
func resume(int) error  { return errors.ErrUnsupported }
