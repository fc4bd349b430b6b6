//go:build linux

package dbtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// NewProgram returns a process of the test binary that dies with the test. TestMain knows by the environment variable env that it has to be the
// program under test.
func NewProgram(env string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env, c.Stderr = append(os.Environ(), env+"=1"), os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// Program is a process that runs.
type Program struct {
	*exec.Cmd
	Lines <-chan string   // of its output; closed when it has ended
	Log   strings.Builder // complete when it has ended
}

// StartProgram starts a process of [NewProgram].
func StartProgram(t testing.TB, c *exec.Cmd) *Program {
	t.Helper()
	lines := make(chan string, 1000)
	p := &Program{Cmd: c, Lines: lines}
	c.Stderr = io.MultiWriter(os.Stderr, &p.Log)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	go func() { // ends with the process
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return p
}

// Next returns the next line.
func (p *Program) Next(t testing.TB) string {
	t.Helper()
	select {
	case line := <-p.Lines:
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("the program prints nothing")
		return ""
	}
}
