//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// faultsVar is the number of faults in all. Without it each fault happens once to each backend.
const faultsVar = "BACKENDTEST_FAULTS"

// TestProcesses makes processes compete on each backend under faults, and checks their actions.
func TestProcesses(t *testing.T) {
	t.Parallel()
	backends := []backend{
		{"postgres", postgresWorld}, {"mariadb", mariadbWorld}, {"redis", redisWorld}, {"sqlite", sqliteWorld}, {"file", fileWorld},
		{"redis, clocks ±30%", func(t *testing.T) *world {
			w := redisWorld(t)
			w.clocks = []float64{1.3, 0.7, 1.3}
			return w
		}},
	}
	each := wanted(faultsVar, 0) / len(backends)
	var mu sync.Mutex
	var rows []row
	onEach(t, backends, func(w *world) {
		r := w.play(each)
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, r...)
	})
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.backend, b.backend) })
	t.Log("\n" + table(rows))
}

// backend is where the processes of a world have their lease.
type backend struct {
	name string
	make func(t *testing.T) *world
}

// onEach runs f in a world of each backend, at the same time.
func onEach(t *testing.T, backends []backend, f func(w *world)) {
	t.Run("on", func(t *testing.T) {
		for _, b := range backends {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				w := b.make(t)
				w.t, w.name, w.lease = t, b.name, 2*time.Second
				w.backend, _, _ = strings.Cut(b.name, ",")
				if raceDetector {
					w.lease = 3 * time.Second
				}
				f(w)
			})
		}
	})
}

// wanted returns the number in a variable of the environment, or otherwise.
func wanted(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// play does n faults to w, or each possible one once if n is 0, and judges.
func (w *world) play(n int) []row {
	w.t.Helper()
	possible := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.can != nil && !f.can(w) })
	if n == 0 {
		n = len(possible)
	}
	w.begin()
	leader := w.awaitLeader("a first leader")
	rows := make(map[string]*row)
	for i := range n {
		f := possible[i%len(possible)]
		r := rows[f.name]
		if r == nil {
			r = &row{backend: w.name, fault: f.name}
			rows[f.name] = r
		}
		if w.clocks != nil && w.clocks[leader.node.slot] < slices.Max(w.clocks) {
			w.leave(leader.node) // a slow leader and a fast follower are the ones to fear
			leader = w.awaitLeader("a leader with a slow clock")
		}
		from, last := now(), leader
		f.do(w, leader.node)
		leader = w.awaitLeader("a leader after " + f.name)
		r.faults++
		if first, ok := w.firstAfter(last.term, from); ok {
			r.changes++
			r.took = append(r.took, first-from)
		}
		if f.replaces {
			assert.Greater(w.t, leader.term, last.term, "%s: %s: no other process has taken over", w.name, f.name)
		}
	}
	total := w.judge()
	var out []row
	for _, f := range possible {
		if r := rows[f.name]; r != nil {
			total.faults += r.faults
			out = append(out, *r)
		}
	}
	return append(out, *total)
}

// judge ends all nodes, and checks their actions.
func (w *world) judge() *row {
	w.t.Helper()
	for _, n := range w.nodes {
		w.signal(n, syscall.SIGTERM)
	}
	for _, n := range w.nodes {
		w.awaitExit(n)
		assert.Empty(w.t, n.failure())
	}

	actions := w.actions()
	require.NoError(w.t, checkFence(actions), w.name)
	total := &row{backend: w.name, fault: inAll}
	inFlight := make(map[*node]int)
	for _, o := range overlaps(actions) {
		if !excused(o.late, w.stops) {
			assert.Fail(w.t, "two leaders", "%s: %v was not over when %v began", w.name, o.late, o.early)
			total.overlaps++
			continue
		}
		total.inFlight++
		inFlight[o.late.node]++
	}
	for n, late := range inFlight {
		stops := 0
		for _, s := range w.stops {
			if s.node == n {
				stops++
			}
		}
		assert.LessOrEqual(w.t, late, stops, "%s: more than one action was in flight per stop", w.name)
	}
	for _, a := range actions {
		total.actions++
		if a.said == "refused" {
			total.refused++
		}
	}
	total.lost = lostUpdates(w.t, w.counter, actions)
	assert.GreaterOrEqual(w.t, total.refused, w.contrasts, "%s: the fence has rejected each late write", w.name)
	assert.GreaterOrEqual(w.t, total.lost, w.contrasts, "%s: the counter has no fence", w.name)
	terms := make(map[uint64]*node)
	for _, a := range actions {
		if other := terms[a.term]; other != nil && other != a.node {
			assert.Fail(w.t, "a term was led twice", "%s: %d", w.name, a.term)
		}
		terms[a.term] = a.node
	}
	total.changes = len(terms)
	return total
}

// firstAfter returns when the first action of a later term than the given one began, if there is any.
func (w *world) firstAfter(term uint64, from time.Duration) (at time.Duration, ok bool) {
	for _, a := range w.actions() {
		if a.term > term && a.begin > from && (!ok || a.begin < at) {
			at, ok = a.begin, true
		}
	}
	return at, ok
}

// inAll is the fault of the row with what all faults did.
const inAll = "in all"

// row is a row of the table.
type row struct {
	backend, fault                             string
	faults, changes                            int
	took                                       []time.Duration
	actions, overlaps, inFlight, refused, lost int
}

// table returns the rows in Markdown: what happened on each backend in all, and for each fault how long it took until a
// new leader acted, median and maximum, or "stays" if there was none.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| backend | faults | terms | actions | two leaders | in flight at a SIGSTOP | refused by the fence | lost by a counter without a fence |\n|---|---|---|---|---|---|---|---|\n")
	var backends []string
	cells := make(map[[2]string]string) // by fault and backend
	for _, r := range rows {
		switch {
		case r.fault == inAll:
			backends = append(backends, r.backend)
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d |\n", r.backend, r.faults, r.changes, r.actions, r.overlaps, r.inFlight, r.refused, r.lost)
		case r.changes == 0:
			cells[[2]string{r.fault, r.backend}] = "stays"
		default:
			cell := quantile(r.took, 0.5) + " / " + quantile(r.took, 1)
			if r.changes < r.faults {
				cell = fmt.Sprintf("%d of %d: %s", r.changes, r.faults, cell)
			}
			cells[[2]string{r.fault, r.backend}] = cell
		}
	}
	fmt.Fprintf(&b, "\n| fault | %s |\n|---%s|\n", strings.Join(backends, " | "), strings.Repeat("|---", len(backends)))
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s |", f.name)
		for _, backend := range backends {
			fmt.Fprintf(&b, " %s |", cells[[2]string{f.name, backend}])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// quantile returns the least time that such a part of them does not exceed, or "-".
func quantile(took []time.Duration, q float64) string {
	if len(took) == 0 {
		return "-"
	}
	slices.Sort(took)
	return took[max(0, int(math.Ceil(q*float64(len(took))))-1)].Round(time.Millisecond).String()
}

func postgresWorld(t *testing.T) *world {
	s := servertest.Postgres(t, "fsync=off", "idle_in_transaction_session_timeout=1s")
	db := openPostgres(t, "pgx", s.Addr())
	w := &world{server: s, store: leasesIn(t, db, sqllease.Postgres, "leases"), remove: removerOf(t, db)}
	require.NoError(t, makeRegister(db))
	for range candidates {
		w.proxies = append(w.proxies, servertest.NewProxy(t, s.Addr()))
	}
	return w
}

func mariadbWorld(t *testing.T) *world {
	s := servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2", "idle-transaction-timeout=1")
	db := openMariaDB(t, "root", s.Addr(), recommended)
	w := &world{server: s, store: leasesIn(t, db, sqllease.MySQL, "leases"), remove: removerOf(t, db)}
	require.NoError(t, makeRegister(db))
	for range candidates {
		w.proxies = append(w.proxies, servertest.NewProxy(t, s.Addr()))
	}
	return w
}

func redisWorld(t *testing.T) *world {
	s := startRedis(t)
	client := openRedis(t, s.Addr(), -1)
	w := &world{server: s, store: redisLeases(client, "{leases}"), remove: func() {
		require.NoError(t, client.Del(context.Background(), "{leases}:lease").Err())
	}}
	for range candidates {
		w.proxies = append(w.proxies, servertest.NewProxy(t, s.Addr()))
	}
	return w
}

func sqliteWorld(t *testing.T) *world {
	file := filepath.Join(t.TempDir(), "leases.db")
	db := openSQLite(t, file, "wal", forWork)
	require.NoError(t, makeRegister(db))
	w := &world{addr: file, store: leasesIn(t, db, sqllease.SQLite, "leases"), remove: removerOf(t, db)}
	w.lock = func() func() {
		conn, err := db.Conn(context.Background())
		require.NoError(t, err)
		_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		return func() {
			_, err := conn.ExecContext(context.Background(), "ROLLBACK")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
	}
	return w
}

// removerOf returns a function that deletes the row of the lease.
func removerOf(t *testing.T, db *sql.DB) func() {
	return func() {
		_, err := db.Exec(`DELETE FROM leases WHERE name = 'lease'`)
		require.NoError(t, err)
	}
}

func fileWorld(t *testing.T) *world {
	dir := t.TempDir()
	s, err := filelease.New(dir)
	require.NoError(t, err)
	_, err = s.Create(context.Background(), leaderelect.Entry{Key: "register", Value: []byte("0")})
	require.NoError(t, err)
	return &world{addr: dir, store: s, remove: func() {
		gone := filepath.Join(t.TempDir(), "gone") // the processes run, so it has to be gone at once
		require.NoError(t, os.Rename(filepath.Join(dir, "lease.d"), gone))
	}}
}
