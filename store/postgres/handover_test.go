//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// BenchmarkHandover measures how long the keys of a quarter of the slots are without a replica, when one of four leaves, and when it comes
// back: until each of them was reconciled by another replica; and how many lists all replicas make when one leaves. Each iteration does both with caches that divide with the slots, and with
// caches of the whole table, by turns. The durations of leases are the defaults, and the leases are in memory. The metrics are medians.
func BenchmarkHandover(b *testing.B) {
	pool := connect(b, servertest.Postgres(b, "fsync=off", "max_wal_size=4GB", "max_connections=200").Addr())
	cfg := newTable(b, pool)
	cfg.SlotBy, cfg.Poll = "name", time.Second
	require.NoError(b, postgres.InstallTable(b.Context(), pool, cfg))
	exec(b, pool, fmt.Sprintf("INSERT INTO %s SELECT 'key ' || n, 0 FROM generate_series(1, %d) n", sqlName(cfg), *rows))
	exec(b, pool, "ANALYZE "+sqlName(cfg))
	all := map[string][]float64{}
	for b.Loop() {
		for _, kind := range []string{"divided", "whole"} {
			h := &handover{b: b, pool: pool, cfg: cfg, divide: kind == "divided", leases: memlease.New()}
			var replicas []*sharing
			for range 4 {
				replicas = append(replicas, h.join())
			}
			h.await(replicas...)
			leaving := replicas[3]
			begin := time.Now()
			h.count(replicas[:3])
			slots := leaving.slots()
			lists := replicas[0].lists() + replicas[1].lists() + replicas[2].lists()
			leaving.leave()
			h.awaitKeys(func() []int { return slots })
			all[kind+"-leave-ms"] = append(all[kind+"-leave-ms"], float64(time.Since(begin).Milliseconds()))
			lists = replicas[0].lists() + replicas[1].lists() + replicas[2].lists() - lists
			all[kind+"-leave-lists"] = append(all[kind+"-leave-lists"], float64(lists))
			h.await(replicas[:3]...)
			begin = time.Now()
			replicas[3] = h.join()
			h.count(replicas[3:])
			h.awaitKeys(func() []int {
				if owned := replicas[3].slots(); len(owned) == shards/4 {
					return owned
				}
				return nil
			})
			all[kind+"-join-ms"] = append(all[kind+"-join-ms"], float64(time.Since(begin).Milliseconds()))
			var stopping sync.WaitGroup
			for _, r := range replicas {
				stopping.Go(r.leave) // ends when the replica has
			}
			stopping.Wait()
		}
	}
	for name, values := range all {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}

// shards is the number of slots.
const shards = 64

// handover is a number of replicas that share the keys of a table.
type handover struct {
	b      *testing.B
	pool   *pgxpool.Pool
	cfg    postgres.TableConfig
	divide bool
	leases *memlease.Store
	joined int

	mu sync.Mutex
	// mu guards the following.
	counted []*sharing        // the replicas whose reconciles count
	done    []map[string]bool // by slot, the keys that they have reconciled
}

// sharing is a replica.
type sharing struct {
	m     *manager.Manager
	lists func() uint64 // so far
	leave func()
}

func (r *sharing) slots() []int { return r.m.Slots().Owned() }

// join begins a replica.
func (h *handover) join() *sharing {
	h.b.Helper()
	h.joined++
	r := &sharing{}
	own, err := pgxpool.NewWithConfig(h.b.Context(), h.pool.Config())
	require.NoError(h.b, err)
	name := func(s site) string { return s.Name }
	var source informer.ListWatcher[site] = sitesIn(h.b, own, h.cfg)
	if h.divide {
		source = informer.Divide(source, name)
	}
	in, err := informer.New(source, name, informer.Config{OnError: func(err error) { h.b.Log(err) }})
	require.NoError(h.b, err)
	r.lists = func() uint64 { return uint64(in.Stats().Lists) }
	c, err := controller.New("sites", func(_ context.Context, key string) (controller.Result, error) {
		h.reconciled(r, key)
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(in))
	require.NoError(h.b, err)
	r.m, err = manager.New(manager.Config{Logger: slog.New(slog.DiscardHandler), Shards: &shard.Config{
		Lease: leaderelect.Config{Store: h.leases, Key: "sites", Identity: fmt.Sprint("replica ", h.joined)}, Slots: shards,
	}}, c)
	require.NoError(h.b, err)
	ctx, stop := context.WithCancel(h.b.Context())
	var running sync.WaitGroup
	running.Go(func() { // ends with stop
		if err := r.m.Run(ctx); err != nil {
			h.b.Error(err)
		}
	})
	r.leave = func() {
		stop()
		running.Wait()
		own.Close()
	}
	return r
}

// await waits until replicas own all slots, in equal parts, and rest.
func (h *handover) await(replicas ...*sharing) {
	h.b.Helper()
	require.Eventually(h.b, func() bool {
		owned, least := 0, shards
		for _, r := range replicas {
			n := len(r.slots())
			owned, least = owned+n, min(least, n)
		}
		return owned == shards && least >= shards/len(replicas)
	}, time.Minute, 10*time.Millisecond)
	time.Sleep(5 * time.Second)
}

// count makes the reconciles of replicas count from now on.
func (h *handover) count(replicas []*sharing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counted, h.done = slices.Clone(replicas), make([]map[string]bool, shards)
	for slot := range h.done {
		h.done[slot] = map[string]bool{}
	}
}

func (h *handover) reconciled(r *sharing, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.counted, r) {
		h.done[r.m.Slots().Slot(key)][key] = true
	}
}

// awaitKeys waits until all keys of slots were reconciled, once there are any.
func (h *handover) awaitKeys(slots func() []int) {
	h.b.Helper()
	of := slotsOf(h.b, shards)
	want := make([]int, shards)
	for n := range *rows {
		want[of.Slot(fmt.Sprint("key ", n+1))]++
	}
	require.Eventually(h.b, func() bool {
		now := slots()
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, slot := range now {
			if len(h.done[slot]) < want[slot] {
				return false
			}
		}
		return len(now) > 0
	}, time.Minute, 5*time.Millisecond)
}
