//go:build unix

package orchestrator

import (
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// notifyStatus relays the signal that asks for the tables to c.
func notifyStatus(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// notifyHangup relays the signal of a closed terminal to c, unless the program was told to ignore it, as by nohup.
func notifyHangup(c chan<- os.Signal) {
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(c, syscall.SIGHUP)
	}
}

// survivePipes makes writes to an output without a reader fail with EPIPE. By default the signal would end the program.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// mine reports whether a file belongs to the user of this process.
func mine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// The signals of the demo.
func kill(pid int) error    { return send(pid, syscall.SIGKILL) }
func suspend(pid int) error { return send(pid, syscall.SIGSTOP) }
func alive(pid int) bool    { return send(pid, 0) == nil }

// send refuses the process ID 0 of a replica that has not started yet. To kill(2), 0 means every process of the group, such as the
// shell that runs this program.
func send(pid int, s syscall.Signal) error {
	if pid <= 0 {
		return fmt.Errorf("webapp: signal %v: %d is not a process ID", s, pid)
	}
	return syscall.Kill(pid, s)
}
