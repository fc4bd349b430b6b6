//go:build linux

package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// fault is a change of a world that is undone before do returns. The leader is the one that led just before.
type fault struct {
	name string
	can  func(w *world) bool // nil is always
	do   func(w *world, leader *node)
	// replaces says that another term has to begin.
	replaces bool
}

func proxied(w *world) bool { return w.proxies != nil }

var faults = []fault{
	{name: "kill -9 of the leader", replaces: true, do: func(w *world, leader *node) {
		w.kill(leader)
		w.awaitTerm(leader)
		w.spawn(leader.slot)
	}},
	{name: "kill -9 of a follower", do: func(w *world, leader *node) {
		follower := w.nodes[(leader.slot+1)%len(w.nodes)]
		w.kill(follower)
		w.spawn(follower.slot)
	}},
	{name: "SIGSTOP of the leader beyond its lease", replaces: true, do: func(w *world, leader *node) {
		from := now()
		w.signal(leader, syscall.SIGSTOP)
		w.awaitTermUnlessLocked(leader)
		time.Sleep(w.lease / 4)
		w.signal(leader, syscall.SIGCONT)
		w.stops = append(w.stops, stop{leader, from, now()})
	}},
	{name: "SIGSTOP of the leader for half of its lease", do: func(w *world, leader *node) {
		from := now()
		w.signal(leader, syscall.SIGSTOP)
		time.Sleep(w.lease / 2)
		w.signal(leader, syscall.SIGCONT)
		w.stops = append(w.stops, stop{leader, from, now()})
	}},
	{name: "SIGSTOP of the leader in an action, beyond its lease", do: func(w *world, leader *node) {
		from := now()
		w.signal(leader, stopInAction)
		w.awaitNodes("a leader that stops in an action", func(n *node) bool { return n != leader || n.state == "stops" })
		if w.awaitTermUnlessLocked(leader) {
			w.contrasts++
		}
		time.Sleep(w.lease / 4)
		w.signal(leader, syscall.SIGCONT)
		w.stops = append(w.stops, stop{leader, from, now()})
	}},
	{name: "the network of the leader is silent", can: proxied, replaces: true, do: func(w *world, leader *node) {
		w.proxies[leader.slot].Stall()
		w.awaitTerm(leader)
		time.Sleep(w.lease / 4)
		w.proxies[leader.slot].Heal()
	}},
	{name: "the network of the leader is slow, then silent", can: proxied, replaces: true, do: func(w *world, leader *node) {
		w.proxies[leader.slot].Slow(w.lease / 10)
		time.Sleep(w.lease / 2)
		w.proxies[leader.slot].Stall()
		w.awaitTerm(leader)
		w.proxies[leader.slot].Heal()
	}},
	{name: "all connections of the leader are cut", can: proxied, do: func(w *world, leader *node) {
		w.proxies[leader.slot].Cut()
	}},
	{name: "a reply to the leader is cut", can: proxied, do: func(w *world, leader *node) {
		w.proxies[leader.slot].CutNextReply()
		time.Sleep(w.lease / 8)
		w.proxies[leader.slot].Heal()
	}},
	{name: "the network of all processes is silent", can: proxied, do: func(w *world, _ *node) {
		for _, p := range w.proxies {
			p.Stall()
		}
		time.Sleep(w.lease)
		for _, p := range w.proxies {
			p.Heal()
		}
	}},
	{name: "kill -9 of the server", can: func(w *world) bool { return w.server != nil }, do: func(w *world, _ *node) {
		w.server.Restart()
	}},
	{name: "a writer holds its lock beyond the lease", can: func(w *world) bool { return w.lock != nil }, do: func(w *world, _ *node) {
		unlock := w.lock()
		time.Sleep(w.lease)
		unlock()
	}},
	{name: "the record is written by hand", replaces: true, do: func(w *world, leader *node) {
		w.writeByHand()
		w.awaitTerm(leader)
	}},
	{name: "the record is deleted by hand", replaces: true, do: func(w *world, leader *node) {
		last, _ := leader.last() // an elector that has not seen it cannot know that it is gone
		w.awaitNodes("nodes that know the leader", func(n *node) bool { return n.knows >= last.term })
		time.Sleep(rand.N(w.lease / 4)) // a follower or the leader sees it first
		w.remove()
		w.awaitTerm(leader)
	}},
	{name: "the leader leaves in order", replaces: true, do: (*world).leave},
}

// leave has the leader hand over, and starts it again.
func (w *world) leave(leader *node) {
	w.t.Helper()
	w.signal(leader, syscall.SIGTERM)
	w.awaitTerm(leader)
	w.awaitExit(leader)
	w.spawn(leader.slot)
}

// awaitNodes waits until all nodes are as they should be. It calls is with their locks held.
func (w *world) awaitNodes(what string, is func(*node) bool) {
	w.t.Helper()
	all := func() bool {
		for _, n := range w.nodes {
			n.mu.Lock()
			ok := is(n)
			n.mu.Unlock()
			if !ok {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(patience); !all(); time.Sleep(time.Millisecond) {
		require.True(w.t, time.Now().Before(end), "%s: there are not, within %v: %s", w.name, patience, what)
	}
}

// awaitTermUnlessLocked is awaitTerm for a leader that is stopped. If it was stopped in the middle of a write to SQLite, it
// holds the one lock of the file, and no process takes over until it continues: then awaitTermUnlessLocked returns false.
func (w *world) awaitTermUnlessLocked(leader *node) bool {
	w.t.Helper()
	if w.lock == nil {
		w.awaitTerm(leader)
		return true
	}
	last, _ := leader.last()
	for end := time.Now().Add(3 * w.lease); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if a, ok := w.newest(); ok && a.term > last.term {
			return true
		}
	}
	return false
}

// writeByHand puts another holder into the record, which never appears again.
func (w *world) writeByHand() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		e, err := w.store.Get(ctx, "lease")
		require.NoError(w.t, err)
		e.Term++
		e.Value, err = json.Marshal(map[string]any{
			"holder": "somebody", "incarnation": "by hand", "term": e.Term, "renewal": 1, "leaseMillis": w.lease.Milliseconds(),
		})
		require.NoError(w.t, err)
		_, err = w.store.Update(ctx, e)
		if err == nil {
			return
		}
		if !errors.Is(err, leaderelect.ErrConflict) {
			require.NoError(w.t, err)
		}
	}
}
