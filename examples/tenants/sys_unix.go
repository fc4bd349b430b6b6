//go:build unix

package main

import (
	"fmt"
	"syscall"
)

// suspends reports whether a process can be suspended on this system.
const suspends = true

func suspend(pid int) error { return send(pid, syscall.SIGSTOP) }
func resume(pid int) error  { return send(pid, syscall.SIGCONT) }

// send refuses an invalid process ID: to kill(2), 0 means all processes of the group, such as the shell, and -1 means all processes.
func send(pid int, s syscall.Signal) error {
	if pid <= 0 {
		return fmt.Errorf("tenants: signal %v: %d is not a process ID", s, pid)
	}
	return syscall.Kill(pid, s)
}
