//go:build linux

package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// rollsVar is the number of rolling restarts. Without it there are two.
const rollsVar = "BACKENDTEST_ROLLS"

// TestRollingRestarts restarts all processes one after the other, repeatedly, as a deployment does. None is killed:
// each stops in order, and a leader hands over. It measures the time without a leader.
func TestRollingRestarts(t *testing.T) {
	t.Parallel()
	backends := []backend{
		{"postgres", postgresWorld}, {"mariadb", mariadbWorld}, {"redis", redisWorld}, {"sqlite", sqliteWorld}, {"file", fileWorld},
		{"postgres, with Sessions", func(t *testing.T) *world { return withSessions(postgresWorld(t)) }},
		{"mariadb, with Sessions", func(t *testing.T) *world { return withSessions(mariadbWorld(t)) }},
	}
	rolls := wanted(rollsVar, 2)
	var mu sync.Mutex
	var rows []string
	onEach(t, backends, func(w *world) {
		w.begin()
		w.awaitLeader("a first leader")
		for range rolls {
			for slot, n := range slices.Clone(w.nodes) {
				w.signal(n, syscall.SIGTERM)
				w.awaitExit(n)
				w.spawn(slot)
				last := w.awaitLeader("a leader after a restart")
				w.awaitNodes("nodes that are ready", func(n *node) bool { return n.knows >= last.term })
			}
		}
		total := w.judge()
		gaps := gapsOf(w.actions())
		assert.GreaterOrEqual(w.t, len(gaps), rolls, "%s: the leader was restarted too", w.name)
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, fmt.Sprintf("| %s | %d | %d | %d | %s | %s | %s |\n", w.name, rolls*candidates, len(gaps), total.overlaps,
			quantile(gaps, 0.5), quantile(gaps, 0.99), quantile(gaps, 1)))
	})
	slices.Sort(rows)
	t.Log("\n| backend | restarts | handovers | two leaders | nobody leads: p50 | p99 | max |\n|---|---|---|---|---|---|---|\n" + strings.Join(rows, ""))
}

// withSessions lets the processes of a world take over early. Nothing is between them and the server.
func withSessions(w *world) *world {
	w.addr, w.proxies, w.early = w.server.Addr(), nil, true
	return w
}

// gapsOf returns how long no node acted between one term and the next. The pause between two actions is part of it.
func gapsOf(actions []action) (gaps []time.Duration) {
	for i, a := range actions[1:] {
		if before := actions[i]; a.term != before.term {
			gaps = append(gaps, a.begin-before.end)
		}
	}
	return gaps
}
