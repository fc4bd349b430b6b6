//go:build linux

package backendtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
)

// fencingLease is the LeaseDuration of the leaders that call services.
func fencingLease() time.Duration {
	if raceDetector {
		return 3 * time.Second
	}
	return 2 * time.Second
}

// scene is leaders and services, each a process of its own.
type scene struct {
	t      *testing.T
	leases string // the directory of the leases
	db     string // the SQLite file of the services, or ""
	all    []*actor
}

func newScene(t *testing.T, withDatabase bool) *scene {
	s := &scene{t: t, leases: t.TempDir()}
	if withDatabase {
		s.db = filepath.Join(t.TempDir(), "shop.db")
	}
	t.Cleanup(func() {
		for _, a := range s.all {
			_ = a.cmd.Process.Signal(syscall.SIGCONT)
			_ = a.cmd.Process.Kill()
			<-a.over
		}
	})
	return s
}

// actor is a process of a scene, and what it says.
type actor struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	in   io.Writer
	over chan struct{}

	mu sync.Mutex
	// mu guards the following.
	said []remark
}

// start starts a process.
func (s *scene) start(name string, spec fencingSpec) *actor {
	s.t.Helper()
	spec.Name, spec.Leases, spec.Lease = name, s.leases, fencingLease()
	if spec.Service != "" {
		spec.Database = s.db
	}
	text, err := json.Marshal(spec)
	require.NoError(s.t, err)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fencingVar+"="+string(text))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(s.t, err)
	in, err := c.StdinPipe() // closed when this process ends
	require.NoError(s.t, err)
	require.NoError(s.t, c.Start())
	a := &actor{t: s.t, name: name, cmd: c, in: in, over: make(chan struct{})}
	s.all = append(s.all, a)
	go func() { // ends with the process
		defer close(a.over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r remark
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				r = remark{What: "failed", Error: lines.Text()}
			}
			a.mu.Lock()
			a.said = append(a.said, r)
			a.mu.Unlock()
		}
		_ = c.Wait()
	}()
	return a
}

// service starts a service at an address, and waits until it serves.
func (s *scene) service(name, addr string, raise bool) *actor {
	s.t.Helper()
	a := s.start(name, fencingSpec{Service: addr, Raise: raise})
	a.await("it serves", func(r remark) bool { return r.What == "serves" })
	return a
}

// leader starts a process that competes for the lease, and then calls a service.
func (s *scene) leader(name, url string) *actor {
	s.t.Helper()
	return s.start(name, fencingSpec{URL: "http://" + url})
}

// remarks returns what the process has said so far.
func (a *actor) remarks() []remark {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

// await waits until the process has said something.
func (a *actor) await(what string, is func(remark) bool) remark {
	a.t.Helper()
	return a.awaitAfter(0, what, is)
}

// awaitAfter waits until the process has said something beyond its first n remarks.
func (a *actor) awaitAfter(n int, what string, is func(remark) bool) remark {
	a.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		all := a.remarks()
		for _, r := range all[min(n, len(all)):] {
			require.NotEqual(a.t, "failed", r.What, "%s: %s", a.name, r.Error)
			if is(r) {
				return r
			}
		}
		if time.Now().After(end) {
			a.t.Fatalf("%s: not within %v: %s; it says %v", a.name, patience, what, all[max(0, len(all)-10):])
		}
	}
}

// works waits until the process has done something as the leader after the call. It returns the last request.
func (a *actor) works() remark {
	a.t.Helper()
	return a.awaitAfter(len(a.remarks()), "it works as the leader", func(r remark) bool { return r.What == "ended" && r.Said == "done" })
}

// stopsAt makes the process stop itself in its next request: in its body, before it, or after it was sent as far as the process knows. It
// returns the request.
func (a *actor) stopsAt(where string) remark {
	a.t.Helper()
	n := len(a.remarks())
	_, err := fmt.Fprintln(a.in, where)
	require.NoError(a.t, err)
	return a.awaitAfter(n, "it stops", func(r remark) bool { return r.What == "stops" })
}

// hangs waits until a request of the process does not end, and returns the request.
func (a *actor) hangs() (request remark) {
	a.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n := len(a.remarks())
		time.Sleep(200 * time.Millisecond)
		if all := a.remarks(); len(all) == n && all[n-1].What == "begins" {
			return all[n-1]
		}
	}
	a.t.Fatalf("%s: its requests end", a.name)
	return request
}

func (a *actor) resume() {
	a.t.Helper()
	require.NoError(a.t, a.cmd.Process.Signal(syscall.SIGCONT))
}

// ends waits until a request of the process has ended, and returns how.
func (a *actor) ends(request remark) remark {
	a.t.Helper()
	return a.await("the request has ended", func(r remark) bool { return r.What == "ended" && r.ID == request.ID })
}

// judge checks what a service, in all its lives, has served: the terms never decrease, and each request is done at most once. It returns the
// greatest term.
func judge(t *testing.T, lives ...*actor) (highest uint64) {
	t.Helper()
	done := make(map[string]bool)
	for _, a := range lives {
		for _, r := range a.remarks() {
			require.NotEqual(t, "failed", r.What, r.Error)
			if r.What != "does" {
				continue
			}
			assert.GreaterOrEqual(t, r.Term, highest, "%s does %s of an earlier term", a.name, r.ID)
			assert.False(t, done[r.ID], "%s does %s again", a.name, r.ID)
			done[r.ID] = true
			highest = max(highest, r.Term)
		}
	}
	return highest
}

// did reports whether a service has done a request.
func (a *actor) did(request remark) bool {
	return slices.ContainsFunc(a.remarks(), func(r remark) bool { return r.What == "does" && r.ID == request.ID })
}

// A leader is stopped in the middle of a request, at three places. Its successor does not wait for it, and its request is not done when it
// continues.
func TestStoppedLeaderIsFencedOverHTTP(t *testing.T) {
	t.Parallel()
	for where, want := range map[string][]string{
		inBody: {"canceled"},          // the rest of the body is not sent
		before: {"canceled", "stale"}, // the first byte may be sent before the timers fire
		sent:   {"stale"},             // nothing cancels it anymore
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, false)
			addr := servertest.FreeAddr(t)
			shop := s.service("shop", addr, false)
			a := s.leader("a", addr)
			a.works()
			b := s.leader("b", addr)
			b.await("it knows the leader", func(r remark) bool { return r.What == "knows" })
			request := a.stopsAt(where)
			later := b.works()
			require.Greater(t, later.Term, request.Term)
			a.resume()
			ended := a.ends(request)
			assert.Contains(t, want, ended.Said, "%v", ended)
			if ended.Said == "stale" {
				assert.Equal(t, later.Term, ended.Have)
			}
			b.works()
			assert.False(t, shop.did(request))
			assert.Equal(t, later.Term, judge(t, shop))
			a.await("it has noticed", func(r remark) bool { return r.What == "over" && r.Term == request.Term })
			for _, r := range a.remarks() {
				if r.What == "ended" && r.Term == request.Term && r.Said == "unknown" {
					t.Errorf("a request has failed otherwise: %v", r)
				}
			}
		})
	}
}

// The network between a leader and the service holds its request, while the lease moves. The leader gives its request up. It arrives after
// requests of the successor, and is refused.
func TestRequestThatPartitionHoldsIsFenced(t *testing.T) {
	t.Parallel()
	s := newScene(t, false)
	addr := servertest.FreeAddr(t)
	shop := s.service("shop", addr, false)
	network := servertest.NewProxy(t, addr)
	a := s.leader("a", network.Addr())
	a.works()
	b := s.leader("b", addr)
	b.await("it knows the leader", func(r remark) bool { return r.What == "knows" })
	arrives := func(request remark) func(remark) bool {
		return func(r remark) bool { return (r.What == "arrives" || r.What == "does") && r.ID == request.ID }
	}
	network.Stall()
	request := a.hangs()
	for slices.ContainsFunc(shop.remarks(), arrives(request)) { // only its response hangs
		network.Heal()
		a.works()
		network.Stall()
		request = a.hangs()
	}
	_, err := fmt.Fprintln(a.in, "lose") // from now on, the leader does not reach its leases
	require.NoError(t, err)
	later := b.works()
	require.Greater(t, later.Term, request.Term)
	assert.Equal(t, "canceled", a.ends(request).Said, "the client has given it up during the partition")
	require.False(t, slices.ContainsFunc(shop.remarks(), arrives(request)))
	network.Heal()
	arrived := shop.await("the request arrives", arrives(request))
	assert.Equal(t, http.StatusPreconditionFailed, arrived.Status)
	b.works()
	assert.False(t, shop.did(request))
	assert.Equal(t, later.Term, judge(t, shop))
}

// The service is killed and starts again. Its successor has no request of the new term yet when one of the old term arrives.
func TestRestartedServiceIsFencedByLease(t *testing.T) {
	t.Parallel()
	s := newScene(t, false)
	addr := servertest.FreeAddr(t)
	first := s.service("shop", addr, false)
	a := s.leader("a", addr)
	a.works()
	b := s.leader("b", addr)
	b.await("it knows the leader", func(r remark) bool { return r.What == "knows" })
	request := a.stopsAt(sent)
	later := b.works()
	b.stopsAt(sent) // before it calls the next life
	require.NoError(t, first.cmd.Process.Kill())
	<-first.over
	second := s.service("shop again", addr, true)
	a.resume()
	ended := a.ends(request)
	assert.Equal(t, "stale", ended.Said, "%v", ended)
	assert.Equal(t, later.Term, ended.Have)
	assert.False(t, second.did(request))
	b.resume()
	second.await("it serves the leader", func(r remark) bool { return r.What == "does" })
	judge(t, first, second)
}

// Two replicas of a service write to one database. The guard of one of them has never seen the new term, so the request reaches its handler,
// and the database refuses the write.
func TestReplicasOfServiceAreFencedByDatabase(t *testing.T) {
	t.Parallel()
	s := newScene(t, true)
	one, two := servertest.FreeAddr(t), servertest.FreeAddr(t)
	first := s.service("first", one, false)
	second := s.service("second", two, false)
	a := s.leader("a", one)
	a.works()
	b := s.leader("b", two)
	b.await("it knows the leader", func(r remark) bool { return r.What == "knows" })
	request := a.stopsAt(sent)
	later := b.works()
	require.Greater(t, later.Term, request.Term)
	a.resume()
	ended := a.ends(request)
	assert.Equal(t, "stale", ended.Said, "%v", ended)
	assert.Equal(t, later.Term, ended.Have)
	assert.True(t, slices.ContainsFunc(first.remarks(), func(r remark) bool { return r.What == "fenced" && r.ID == request.ID }),
		"the guard has let it through, and the database has not")
	assert.False(t, first.did(request))
	judge(t, first)
	judge(t, second)
	b.works()
	written := readLog(t, s.db)
	assert.True(t, slices.IsSortedFunc(written, func(x, y entry) int { return int(x.Term) - int(y.Term) }), "%v", written)
	assert.False(t, slices.ContainsFunc(written, func(e entry) bool { return e.ID == request.ID }))
}
