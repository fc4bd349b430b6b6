package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// replica is a replica of the program in a process of its own, for the demo.
type replica struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer     // the replica stops gracefully when it is closed
	ended  chan struct{} // closed when the process has ended, and err is set
	err    error
	stderr strings.Builder // the log; read it after ended
}

// replicas are those of the demo, by name.
type replicas struct {
	args []string // of each, in addition to its name
	tell func(line string)

	mu sync.Mutex
	// mu guards the following.
	all    map[string]*replica
	leader string          // the replica that has last said that it leads
	term   uint64          // the term of leader
	over   map[string]bool // replicas that have said that they lead no more
}

// start starts a replica.
func (rs *replicas) start(ctx context.Context, name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r := &replica{name: name, cmd: exec.CommandContext(ctx, self, append([]string{"-tied", "-name", name}, rs.args...)...)}
	r.ended, r.cmd.Stderr = make(chan struct{}), &r.stderr
	stdout, err1 := r.cmd.StdoutPipe()
	stdin, err2 := r.cmd.StdinPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	r.stdin = stdin
	if err := r.cmd.Start(); err != nil {
		return err
	}
	rs.mu.Lock()
	rs.all[name] = r
	rs.mu.Unlock()
	// Reads what the replica prints, and ends with it.
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			rs.hear(name, lines.Text())
		}
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return nil
}

// hear reads a line of a replica, and passes it on.
func (rs *replicas) hear(name, line string) {
	var term uint64
	_, said, _ := strings.Cut(line, ": ")
	rs.mu.Lock()
	if n, _ := fmt.Sscanf(said, "leads, term %d", &term); n == 1 && term > rs.term {
		rs.leader, rs.term = name, term
	}
	if strings.HasPrefix(said, "leads no more") {
		rs.over[name] = true
	}
	rs.mu.Unlock()
	rs.tell(line)
}

// leads returns the replica that leads, and its term.
func (rs *replicas) leads() (*replica, uint64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.all[rs.leader], rs.term
}

// stop stops all replicas gracefully, and returns their errors.
func (rs *replicas) stop() error {
	rs.mu.Lock()
	all := slices.Collect(maps.Values(rs.all))
	rs.mu.Unlock()
	var errs []error
	for _, r := range all {
		_ = r.stdin.Close() // it may already have ended
	}
	for _, r := range all {
		<-r.ended
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w\n%s", r.name, r.err, r.stderr.String()))
		}
	}
	return errors.Join(errs...)
}

// kill ends a replica as kill -9 does, and waits until it is gone.
func (rs *replicas) kill(r *replica) error {
	err := r.cmd.Process.Kill()
	<-r.ended
	return err
}

// deposed reports whether a replica has said that it leads no more.
func (rs *replicas) deposed(name string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.over[name]
}

// stopWithStdin stops a replica when its standard input ends, even if the demo is killed.
func stopWithStdin(stop func()) {
	go func() { // ends with standard input, or with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
}
