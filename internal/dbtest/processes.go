//go:build linux

package dbtest

import (
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Processes run the test binary several times, each with a text of its own in an environment variable, by which its TestMain knows what to do.
// A process ends when its standard input ends. All of them die with the test.
type Processes struct {
	t     testing.TB
	env   string
	text  func(seed uint64) string
	all   []*exec.Cmd
	pipes []io.Closer
	seed  uint64
}

// StartProcesses starts n processes. text returns the value of the variable env, for a seed that no other process gets.
func StartProcesses(t testing.TB, n int, env string, text func(seed uint64) string) *Processes {
	t.Helper()
	p := &Processes{t: t, env: env, text: text, all: make([]*exec.Cmd, n), pipes: make([]io.Closer, n)}
	for i := range n {
		p.start(i)
	}
	return p
}

func (p *Processes) start(i int) {
	p.t.Helper()
	p.seed++
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), p.env+"="+p.text(p.seed))
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Stderr = os.Stderr
	pipe, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.all[i], p.pipes[i] = c, pipe
}

// Kill kills one of the processes, and starts another one in its place.
func (p *Processes) Kill() {
	i := rand.IntN(len(p.all))
	_ = p.all[i].Process.Kill()
	_ = p.all[i].Wait() // says that it was killed
	p.start(i)
}

// Stop ends all processes, after what they have begun. The test fails if one of them fails.
func (p *Processes) Stop() {
	for i, c := range p.all {
		_ = p.pipes[i].Close()
		if err := c.Wait(); err != nil {
			p.t.Error(err)
		}
	}
}
