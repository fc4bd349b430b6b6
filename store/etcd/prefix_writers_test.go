//go:build linux

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
)

// startWriters starts processes that write keys.
func startWriters(t testing.TB, addrs string, n int) *dbtest.Processes {
	return dbtest.StartProcesses(t, n, envPrefixWriter, func(seed uint64) string {
		text, err := json.Marshal(prefixWriter{addrs, seed})
		require.NoError(t, err)
		return string(text)
	})
}

// step is one event of a key.
type step struct {
	revision int64
	deleted  bool
}

// record follows all changes with a bare client, which is the model: what a prefix reports must be a part of this.
type record struct {
	mu sync.Mutex
	// mu guards the following.
	revision int64
	steps    map[string][]step
	moved    chan struct{} // closed at each response
}

// follow reads until ctx ends. It goes on after errors.
func (r *record) follow(ctx context.Context, c *clientv3.Client) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		for res := range c.Watch(watching, writtenPrefix, clientv3.WithPrefix(), clientv3.WithRev(r.at()+1)) {
			if res.Err() != nil {
				break
			}
			r.mu.Lock()
			for _, e := range res.Events {
				name := string(e.Kv.Key[len(writtenPrefix):])
				r.steps[name] = append(r.steps[name], step{e.Kv.ModRevision, e.Type == mvccpb.Event_DELETE})
				r.revision = e.Kv.ModRevision
			}
			close(r.moved)
			r.moved = make(chan struct{})
			r.mu.Unlock()
		}
		cancel()
	}
}

func (r *record) at() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

// await returns when n more revisions have changed keys.
func (r *record) await(t testing.TB, n int64) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for from := r.at(); ; {
		r.mu.Lock()
		done, moved := r.revision >= from+n, r.moved
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-moved:
		case <-limit:
			t.Fatal("nothing was written for two minutes")
		}
	}
}

// reported is what a handler got.
type reported struct {
	deleted bool
	at      int64 // the revision of the state, the last one of a deletion
}

// reader is an informer, with what its handler got for each key.
type reader struct {
	*informer.Informer[string, site]
	mu  sync.Mutex
	got map[string][]reported // guarded by mu
}

func newReader(t testing.TB, addrs string) *reader {
	t.Helper()
	inf, err := informer.New(sitesAt(t, connect(t, addrs, eagerly), writtenPrefix), siteName, informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	r := &reader{Informer: inf, got: map[string][]reported{}}
	add := func(name string, what reported) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[name] = append(r.got[name], what)
	}
	_, err = inf.AddHandler(informer.Handler[string, site]{
		EveryEvent: true,
		OnAdd:      func(s site, _ bool) { add(s.Name, reported{at: s.At}) },
		OnUpdate:   func(_, s site) { add(s.Name, reported{at: s.At}) },
		OnDelete:   func(d cache.Tombstone[string, site]) { add(d.Key, reported{deleted: true, at: d.Object.At}) },
	})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return r
}

// check checks what the handler got against the record: no state twice or backward, and no deletion that did not happen.
func (r *reader) check(t testing.TB, all map[string][]step) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, got := range r.got {
		var last int64 // the revision of the last state
		for i, g := range got {
			happened := slices.ContainsFunc(all[name], func(s step) bool {
				if g.deleted {
					before := i+1 == len(got) || s.revision <= got[i+1].at
					return s.deleted && s.revision >= g.at && before
				}
				return !s.deleted && s.revision == g.at
			})
			if !happened {
				t.Fatalf("%s: %+v has not happened, after revision %d: %v of %v", name, g, last, got[max(i-3, 0):i+1], all[name])
			}
			if !g.deleted && g.at <= last {
				t.Fatalf("%s: revision %d comes after revision %d", name, g.at, last)
			}
			if !g.deleted {
				last = g.at
			}
		}
	}
}

// reaches returns when the cache has seen a revision.
func (r *reader) reaches(t testing.TB, revision int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, r.WaitForVersion(ctx, informer.Version(revision)))
}

// agrees compares the cache with what the cluster has.
func (r *reader) agrees(t testing.TB, c *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for { // a list may still be under way, or leases may be ending
		require.NoError(t, r.CatchUp(ctx))
		at := r.Version()
		res, err := c.Get(ctx, writtenPrefix, clientv3.WithPrefix())
		require.NoError(t, err)
		newest := int64(0)
		want, unread := map[string]site{}, map[string]bool{}
		for _, kv := range res.Kvs {
			s, err := siteOf(writtenPrefix)(kv)
			if newest = max(newest, kv.ModRevision); err != nil {
				unread[s.Name] = true
			} else {
				want[s.Name] = s
			}
		}
		got := map[string]site{}
		for name, s := range r.Indexer().All() {
			if !unread[name] { // otherwise it is the last state that could be read
				got[name] = s
			}
		}
		wrong := ""
		for name := range unread {
			if r.Unread(name) == nil {
				wrong = name + " is unread, and the informer does not say so"
			}
		}
		if !maps.Equal(want, got) {
			wrong = fmt.Sprintf("the cache has %v, the cluster %v", got, want)
		}
		if wrong == "" {
			return
		}
		if now, err := c.Get(ctx, writtenPrefix, clientv3.WithCountOnly()); err == nil && now.Header.Revision == res.Header.Revision && int64(r.Version()) >= res.Header.Revision && int64(at) >= res.Header.Revision {
			t.Fatalf("at version %d: %s", at, wrong) // nothing has changed in the meantime
		}
	}
}

// faulty is what a fault can break.
type faulty struct {
	*processes
	writers *dbtest.Processes
	record  *record
	bare    *clientv3.Client
}

// compact makes the cluster forget what the record has.
func (f faulty) compact() {
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	_, _ = f.bare.Compact(ctx, f.record.at()) // which may be compacted, and the server may be away
}

// Writers in three processes write keys at random, in all ways that etcd has, while something fails and the history is compacted near its
// head. Two informers follow, one from the beginning. What they report is a part of what happened, and in the end they have what the cluster
// has.
func TestPrefixCachesMatchClusterWhile(t *testing.T) {
	stall := func(proxies []*servertest.Proxy, d time.Duration) {
		for _, p := range proxies {
			p.Stall()
		}
		time.Sleep(d)
		for _, p := range proxies {
			p.Heal()
		}
	}
	for _, c := range []struct {
		name    string
		members int
		slow    bool // only with many cycles
		fault   func(t *testing.T, f faulty)
	}{
		{"a writer is killed", 1, false, func(_ *testing.T, f faulty) { f.writers.Kill() }},
		{"the server is killed", 1, false, func(_ *testing.T, f faulty) { f.servers[0].Restart() }},
		{"the server is restarted", 1, true, func(_ *testing.T, f faulty) { f.servers[0].Stop(); f.servers[0].Start() }},
		{"all connections are cut", 1, false, func(_ *testing.T, f faulty) { f.clients[0].Cut() }},
		{"a reply is lost", 1, true, func(_ *testing.T, f faulty) { f.clients[0].CutNextReply() }},
		{"the network stalls", 1, true, func(_ *testing.T, f faulty) { stall(f.clients, 100*time.Millisecond) }},
		{"the network stalls longer", 1, true, func(_ *testing.T, f faulty) { stall(f.clients, 3*time.Second) }},
		{"connections are half-open", 1, true, func(_ *testing.T, f faulty) { f.clients[0].Hang() }},
		{"the quota is used up", 1, true, func(_ *testing.T, f faulty) { f.useUpQuota() }},
		{"the leader is killed", 3, false, func(_ *testing.T, f faulty) { i, _ := f.leader(); f.servers[i].Restart() }},
		{"the leader changes", 3, true, func(_ *testing.T, f faulty) { f.moveLeader() }},
		{"the followers do not receive from the leader", 3, true, func(_ *testing.T, f faulty) {
			i, _ := f.leader()
			stall(f.peers[i:i+1], time.Second)
		}},
		{"the history is trimmed while the readers are away", 1, false, func(t *testing.T, f faulty) {
			f.clients[0].Stall()
			f.record.await(t, 20)
			f.compact()
			f.clients[0].Cut()
			f.clients[0].Heal()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && *cycles == 1 {
				t.Skip("it takes longer; run it with -cycles=2 or more")
			}
			t.Parallel()
			p := startProcesses(t, c.members)
			bare := connect(t, p.near(), eagerly)
			r := &record{steps: map[string][]step{}, moved: make(chan struct{})}
			following, stop := context.WithCancel(t.Context())
			var recording sync.WaitGroup
			recording.Go(func() { r.follow(following, bare) }) // ends with stop
			defer recording.Wait()
			defer stop()
			first := newReader(t, p.far())
			w := startWriters(t, p.near(), 3)
			r.await(t, 50)
			second := newReader(t, p.far())
			for range *cycles {
				for range 2 { // a list may reach the first revision: the second one comes from a watch, so that the fault meets one
					r.await(t, 20)
					for _, reader := range []*reader{first, second} {
						reader.reaches(t, r.at())
					}
				}
				time.Sleep(rand.N(20 * time.Millisecond)) // any moment will do
				f := faulty{p, w, r, bare}
				c.fault(t, f)
				if rand.IntN(3) == 0 {
					f.compact()
				}
			}
			r.await(t, 50)
			w.Stop()
			for { // leases end, and delete their keys
				left, err := bare.Leases(t.Context())
				if err == nil && len(left.Leases) == 0 {
					break
				}
				require.NoError(t, t.Context().Err())
				time.Sleep(50 * time.Millisecond) // they take a second
			}
			for _, reader := range []*reader{first, second} {
				reader.agrees(t, bare)
			}
			now, err := bare.Get(t.Context(), "now")
			require.NoError(t, err)
			last, err := bare.Put(t.Context(), writtenPrefix+"end", "1")
			require.NoError(t, err)
			for r.at() < last.Header.Revision {
				r.await(t, 0)
				time.Sleep(time.Millisecond)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			changes := 0
			for _, steps := range r.steps {
				changes += len(steps)
			}
			first.check(t, r.steps)
			second.check(t, r.steps)
			t.Logf("%d times, %d revisions, %d changes, %d and %d lists", *cycles, now.Header.Revision, changes, first.Stats().Lists, second.Stats().Lists)
		})
	}
}
