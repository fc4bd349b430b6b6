//go:build linux

package backendtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// patience is how long anything may take that has to happen.
const patience = 30 * time.Second

// candidates is how many processes compete.
const candidates = 3

// world is a backend, and processes that compete for a lease in it.
type world struct {
	t       testing.TB
	name    string
	backend string // postgres, mariadb, redis, sqlite, file
	addr    string
	lease   time.Duration
	early   bool                   // takeover, as soon as the process of the leader is gone
	clocks  []float64              // of each node: how many seconds pass in one second of it; nil if all are right
	store   leaderelect.LeaseStore // as the test reaches it
	server  *servertest.Server     // nil if there is none
	proxies []*servertest.Proxy    // one for each node; nil if there is no network
	lock    func() (unlock func()) // excludes all writers; nil if unsupported
	remove  func()                 // the record, like an operator by hand

	counter   string
	nodes     []*node // in each slot, the one that runs
	all       []*node // that ever ran
	stops     []stop
	contrasts int // actions in which a node was stopped until another had acted
}

// stop is a time in which a node was stopped by a signal.
type stop struct {
	node     *node
	from, to time.Duration
}

// begin starts the nodes, and waits until one leads.
func (w *world) begin() {
	w.t.Helper()
	dir := w.t.TempDir()
	w.counter = filepath.Join(dir, "counter")
	w.nodes = make([]*node, candidates)
	for slot := range w.nodes {
		w.spawn(slot)
	}
	w.t.Cleanup(func() {
		for _, n := range w.nodes {
			_ = n.stop(syscall.SIGCONT)
			_ = n.stop(syscall.SIGKILL)
		}
		for _, n := range w.all {
			<-n.over
		}
	})
}

// spawn starts a node. Two of them have the same identity.
func (w *world) spawn(slot int) {
	w.t.Helper()
	spec := nodeSpec{Backend: w.backend, Addr: w.addr, Counter: w.counter, Identity: fmt.Sprintf("node-%d", slot/2), Lease: w.lease, Early: w.early}
	if w.proxies != nil {
		spec.Addr = w.proxies[slot].Addr()
	}
	if w.clocks != nil {
		spec.Clock = w.clocks[slot]
	}
	text, err := json.Marshal(spec)
	require.NoError(w.t, err)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), nodeVar+"="+string(text))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(w.t, err)
	_, err = c.StdinPipe() // closed when this process ends
	require.NoError(w.t, err)
	require.NoError(w.t, c.Start())
	n := &node{
		slot: slot, pid: c.Process.Pid, state: "running", over: make(chan struct{}),
		stop: func(s syscall.Signal) error { return c.Process.Signal(s) },
	}
	w.nodes[slot] = n
	w.all = append(w.all, n)
	go func() { // ends with the node
		defer close(n.over)
		n.read(out)
		_ = c.Wait()
		end := now()
		n.mu.Lock()
		defer n.mu.Unlock()
		if last := len(n.actions) - 1; last >= 0 && n.actions[last].said == "" {
			n.actions[last].end = end
		}
	}()
}

func (w *world) signal(n *node, s syscall.Signal) {
	w.t.Helper()
	require.NoError(w.t, n.stop(s))
}

func (w *world) kill(n *node) {
	w.t.Helper()
	w.signal(n, syscall.SIGKILL)
	w.awaitExit(n)
}

func (w *world) awaitExit(n *node) {
	w.t.Helper()
	select {
	case <-n.over:
	case <-time.After(patience):
		w.t.Fatalf("%s: a node does not end within %v", w.name, patience)
	}
}

// newest returns the last action that was done.
func (w *world) newest() (newest action, ok bool) {
	for _, n := range w.nodes {
		if a, done := n.last(); done && (!ok || a.end > newest.end) {
			newest, ok = a, true
		}
	}
	return newest, ok
}

// awaitLeader waits until one leads now: until an action is done that has begun after the call. It returns the leader.
func (w *world) awaitLeader(what string) action {
	w.t.Helper()
	return w.await(what, func(a action, from time.Duration) bool { return a.begin > from })
}

// awaitTerm waits until another than the given node acts in a later term.
func (w *world) awaitTerm(leader *node) {
	w.t.Helper()
	last, _ := leader.last()
	w.await("another leader", func(a action, _ time.Duration) bool { return a.term > last.term })
}

func (w *world) await(what string, is func(a action, from time.Duration) bool) action {
	w.t.Helper()
	from := now()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		for _, n := range w.all {
			require.Empty(w.t, n.failure(), "%s: a node has failed", w.name)
		}
		if a, ok := w.newest(); ok && is(a, from) {
			return a
		}
		if time.Now().After(end) {
			for _, n := range w.nodes {
				w.t.Log(n.report())
			}
			w.t.Fatalf("%s: there is not, within %v: %s", w.name, patience, what)
		}
	}
}

// actions returns all that was done, in order of begin. The nodes must have ended.
func (w *world) actions() []action {
	var all []action
	for _, n := range w.all {
		n.mu.Lock()
		all = append(all, n.actions...)
		n.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b action) int { return cmp.Compare(a.begin, b.begin) })
	return all
}
