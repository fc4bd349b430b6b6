//go:build linux

package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// load is how a table is updated: by transactions of one row each, in bursts of so many at once, so many times a second.
type load struct {
	burst, perSecond int
}

// name returns the name of the metrics of l.
func (l load) name() string {
	if l.burst > 1 {
		return fmt.Sprintf("bursts-of-%d", l.burst)
	}
	return fmt.Sprintf("%d/s", l.perSecond)
}

// BenchmarkFleet compares what the server pays for an update of a table that one replica watches, and that 16 do, each of which holds 4 of
// 64 slots, and has a pool and a connection that listens, as separate programs have. Each iteration measures all loads without a replica,
// with one, and with 16, by turns; the metrics are medians. For each load they are the CPU time of the server per update, in microseconds,
// and the median and the 99th percentile of the time from the commit to the handler; with a prefix that says how many replicas there are.
// idle is the CPU time per second without updates, in milliseconds.
func BenchmarkFleet(b *testing.B) {
	const n = 10_000
	pool := connect(b, servertest.Postgres(b, "fsync=off", "autovacuum=off", "max_connections=200").Addr())
	cfg := newTable(b, pool)
	cfg.SlotBy, cfg.Poll = "name", time.Second
	require.NoError(b, postgres.InstallTable(b.Context(), pool, cfg))
	exec(b, pool, fmt.Sprintf("INSERT INTO %s SELECT 'key ' || n, 0 FROM generate_series(0, %d) n", sqlName(cfg), n-1))
	exec(b, pool, "ANALYZE "+sqlName(cfg))
	loads := []load{{1, 10}, {1, 100}, {1, 500}, {100, 1}}
	all := map[string][]float64{}
	note := func(name string, v float64) { all[name] = append(all[name], v) }
	for b.Loop() {
		for _, replicas := range []int{0, 1, 16} {
			w := beginFleet(b, pool, cfg, n, replicas)
			prefix := fmt.Sprintf("x%d:", replicas)
			time.Sleep(time.Second)
			before := serverCPU(b, pool)
			time.Sleep(3 * time.Second)
			note(prefix+"idle-ms/s", float64((serverCPU(b, pool)-before).Microseconds())/3/1000)
			for _, l := range loads {
				cpu, statements, waits := w.measure(l, 4*time.Second)
				note(prefix+l.name()+"-µs", cpu)
				if replicas > 0 {
					note(prefix+l.name()+"-statements", statements)
					slices.Sort(waits)
					for name, percent := range map[string]int{"p50-ms": 50, "p99-ms": 99} {
						note(prefix+l.name()+"-"+name, float64(waits[len(waits)*percent/100].Microseconds())/1000)
					}
				}
			}
			w.end()
		}
		for _, l := range loads {
			last := func(replicas int) float64 {
				of := all[fmt.Sprintf("x%d:%s-µs", replicas, l.name())]
				return of[len(of)-1]
			}
			note("ratio:"+l.name(), last(16)/last(1))
		}
	}
	for name, values := range all {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}

// fleetWorld is a number of replicas that watch a table, and writers.
type fleetWorld struct {
	b    *testing.B
	pool *pgxpool.Pool
	cfg  postgres.TableConfig
	rows int
	ends []func()
	seen chan time.Duration // how long after its commit a handler got an update

	statements statements

	mu        sync.Mutex
	written   map[int]time.Time // by revision, when it was committed
	early     map[int]time.Time // by revision, when a handler got it, if that was before it was written to written
	revisions int
}

// statements counts statements. It is a tracer of connections.
type statements struct{ atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// beginFleet begins replicas that each hold an equal part of 64 slots.
func beginFleet(b *testing.B, pool *pgxpool.Pool, cfg postgres.TableConfig, rows, replicas int) *fleetWorld {
	b.Helper()
	w := &fleetWorld{b: b, pool: pool, cfg: cfg, rows: rows, seen: make(chan time.Duration, 1_000_000)}
	w.written, w.early = make(map[int]time.Time), make(map[int]time.Time)
	require.NoError(b, pool.QueryRow(b.Context(), "SELECT max(rev) FROM "+sqlName(cfg)).Scan(&w.revisions))
	const slots = 64
	of := slotsOf(b, slots)
	for r := range replicas {
		settings := pool.Config()
		settings.ConnConfig.Tracer = &w.statements
		own, err := pgxpool.NewWithConfig(b.Context(), settings)
		require.NoError(b, err)
		name := func(s site) string { return s.Name }
		in, err := informer.New(informer.Divide(sitesIn(b, own, cfg), name), name, informer.Config{OnError: func(err error) { b.Error(err) }})
		require.NoError(b, err)
		in.Share(of.Slot, of.HashRange)
		_, err = in.AddHandler(informer.Handler[string, site]{OnUpdate: func(_, now site) { w.handled(now.Rev) }})
		require.NoError(b, err)
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = in.Run(ctx) }) // ends with stop
		var holds sync.WaitGroup
		for slot := r * slots / replicas; slot < (r+1)*slots/replicas; slot++ {
			holds.Go(func() { // ends when the slot is held
				if err := in.Hold(ctx, slot); err != nil {
					b.Error(err)
				}
			})
		}
		holds.Wait()
		w.ends = append(w.ends, func() {
			stop()
			running.Wait()
			own.Close()
		})
	}
	return w
}

func (w *fleetWorld) end() {
	for _, end := range w.ends {
		end()
	}
}

// handled notes that a handler got a revision.
func (w *fleetWorld) handled(rev int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.written[rev]; ok {
		delete(w.written, rev)
		w.seen <- time.Since(at)
	} else {
		w.early[rev] = time.Now()
	}
}

// write makes one update.
func (w *fleetWorld) write() {
	w.mu.Lock()
	w.revisions++
	rev := w.revisions
	w.mu.Unlock()
	// Keys far from each other, each in its turn.
	_, err := w.pool.Exec(w.b.Context(), "UPDATE "+sqlName(w.cfg)+" SET rev = $2 WHERE name = $1", fmt.Sprintf("key %d", rev*7919%w.rows), rev)
	at := time.Now()
	if err != nil {
		w.b.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.early[rev]; ok {
		delete(w.early, rev)
		w.seen <- 0
	} else {
		w.written[rev] = at
	}
}

// measure updates rows, and returns for each update the CPU time of the server, in microseconds, the statements of the replicas, and how
// long it took to a handler.
func (w *fleetWorld) measure(l load, d time.Duration) (cpu, statements float64, waits []time.Duration) {
	for len(w.seen) > 0 {
		<-w.seen
	}
	before, sent := serverCPU(w.b, w.pool), w.statements.Load()
	ticks := time.NewTicker(time.Second / time.Duration(l.perSecond))
	defer ticks.Stop()
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); <-ticks.C {
		var writers sync.WaitGroup
		for range min(l.burst, 4) {
			writers.Go(func() { // ends after its part of the burst
				for range max(l.burst/4, 1) {
					w.write()
				}
			})
		}
		writers.Wait()
		n += l.burst
	}
	cpu = float64((serverCPU(w.b, w.pool) - before).Nanoseconds()) / 1000 / float64(n)
	statements = float64(w.statements.Load()-sent) / float64(n)
	if len(w.ends) == 0 {
		return cpu, statements, nil
	}
	for end := time.Now().Add(5 * time.Second); len(w.seen) < n && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	for len(w.seen) > 0 {
		waits = append(waits, <-w.seen)
	}
	return cpu, statements, waits
}

// serverCPU returns the CPU time of all processes of the server so far: that of the first one, of its children, and of those that have ended.
func serverCPU(t testing.TB, pool *pgxpool.Pool) (all time.Duration) {
	t.Helper()
	var pid int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	first := statOf(t, pid)[1] // its parent
	paths, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		require.NoError(t, err)
		stat := statOf(t, pid)
		if stat == nil || pid != int(first) && stat[1] != first {
			continue
		}
		text, err := os.ReadFile(filepath.Join(path, "schedstat")) // in nanoseconds; those of stat are clock ticks
		if err != nil {
			continue // it has ended
		}
		ran, err := strconv.ParseInt(string(bytes.Fields(text)[0]), 10, 64)
		require.NoError(t, err)
		all += time.Duration(ran)
		if pid == int(first) {
			const tick = 10 * time.Millisecond
			all += time.Duration(stat[13]+stat[14]) * tick // of children that have ended
		}
	}
	return all
}

// statOf returns the fields of /proc/pid/stat after the name, from the state, which is 0; nil if the process has ended.
func statOf(t testing.TB, pid int) (fields []int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	for field := range bytes.FieldsSeq(text[bytes.LastIndexByte(text, ')')+1:]) {
		v, _ := strconv.ParseInt(string(field), 10, 64) // the state is no number, and some are too large
		fields = append(fields, v)
	}
	return fields
}
