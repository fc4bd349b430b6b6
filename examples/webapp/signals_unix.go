//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyStatus makes the signal that asks for the tables arrive at c.
func notifyStatus(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// What the demo does to processes.
func kill(pid int) error    { return syscall.Kill(pid, syscall.SIGKILL) }
func suspend(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
func alive(pid int) bool    { return syscall.Kill(pid, 0) == nil }
