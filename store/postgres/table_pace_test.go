//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func TestWatchRanges(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "autovacuum=off")
	for name, test := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"a stream is followed without notifications":                    streamIsFollowedWithoutNotifications,
		"another watch keeps its notifications":                         otherWatchKeepsNotifications,
		"a connection that is lost during a stream listens again":       lostConnectionListensAgain,
		"a watch that leaves in a stream leaves nothing behind":         watchLeavesNothingBehind,
		"a watch of everything, or of ranges that are all, has no pace": watchOfEverythingHasNoPace,
		"a watch of ranges keeps the source contract":                   watchOfRangesKeepsTheSourceContract,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, server.Addr())) })
	}
}

// sixteenth is the range of one of 16 replicas.
func sixteenth() []informer.HashRange { return []informer.HashRange{{From: 0, To: 1 << 28}} }

// paced is a watch that never polls.
type paced struct {
	t     *testing.T
	pool  *pgxpool.Pool
	cfg   postgres.TableConfig
	table *postgres.Table[site]
	rev   int
}

func newPaced(t *testing.T, pool *pgxpool.Pool) *paced {
	cfg := seeded(t, pool, 1)
	return &paced{t: t, pool: pool, cfg: cfg, table: sitesIn(t, pool, cfg)}
}

// follow passes the revisions that a watch sees to the channel that it returns, until the test ends.
func (p *paced) follow(watch func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error]) <-chan int {
	p.t.Helper()
	at, err := p.table.LatestVersion(p.t.Context())
	require.NoError(p.t, err)
	seen, done := make(chan int, 10_000), make(chan struct{})
	ctx, stop := context.WithCancel(p.t.Context())
	go func() { // ends with the test, which waits for it
		defer close(done)
		for e, err := range watch(ctx, at) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				p.t.Error(err)
				return
			}
			if e.Type != informer.Bookmark {
				seen <- e.Object.Rev
			}
		}
	}()
	p.t.Cleanup(func() {
		stop()
		<-done
	})
	return seen
}

func (p *paced) ranges(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return p.table.WatchRanges(ctx, after, sixteenth())
}

func (p *paced) write() {
	p.t.Helper()
	p.rev++
	exec(p.t, p.pool, `UPDATE `+sqlName(p.cfg)+` SET rev = $1`, p.rev)
}

// sees waits until the last revision is seen.
func (p *paced) sees(seen <-chan int) {
	p.t.Helper()
	late := time.After(2 * time.Second) // a poll would be later
	for {
		select {
		case rev := <-seen:
			if rev == p.rev {
				return
			}
		case <-late:
			p.t.Fatalf("revision %d has not arrived", p.rev)
		}
	}
}

// listeners returns the connections of watches, by whether they listen. The last statement of such a connection says so.
func (p *paced) listeners() (listening, deaf int) {
	p.t.Helper()
	channel := channelOf(p.t, p.pool, p.cfg)
	require.NoError(p.t, p.pool.QueryRow(p.t.Context(), `SELECT count(*) FILTER (WHERE query LIKE 'LISTEN%'), count(*) FILTER (WHERE query LIKE 'UNLISTEN%')
		FROM pg_stat_activity WHERE query LIKE '%LISTEN%' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()`, channel).Scan(&listening, &deaf))
	return listening, deaf
}

// stream writes until the connection of the watch does not listen.
func (p *paced) stream() {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		for range 10 {
			p.write()
		}
		if _, deaf := p.listeners(); deaf > 0 {
			return
		}
		require.True(p.t, time.Now().Before(end), "the connection still listens")
	}
}

// awaitListening waits until one connection listens.
func (p *paced) awaitListening() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		listening, deaf := p.listeners()
		return listening == 1 && deaf == 0
	}, 20*time.Second, time.Millisecond)
}

func streamIsFollowedWithoutNotifications(t *testing.T, pool *pgxpool.Pool) {
	p := newPaced(t, pool)
	seen := p.follow(p.ranges)
	p.awaitListening()
	for range 20 {
		p.write()
		p.sees(seen)
		p.stream()
		p.sees(seen)
		p.write() // during the stream, or while the connection begins to listen
		p.sees(seen)
		p.awaitListening()
	}
}

func otherWatchKeepsNotifications(t *testing.T, pool *pgxpool.Pool) {
	p := newPaced(t, pool)
	seen, whole := p.follow(p.ranges), p.follow(p.table.Watch)
	p.awaitListening()
	for range 300 {
		p.write()
		p.sees(whole)
		_, deaf := p.listeners()
		require.Zero(t, deaf)
	}
	p.sees(seen)
}

func lostConnectionListensAgain(t *testing.T, pool *pgxpool.Pool) {
	p := newPaced(t, pool)
	p.cfg.Poll = 3 * time.Second // until it connects again
	p.table = sitesIn(t, pool, p.cfg)
	seen := p.follow(p.ranges)
	p.awaitListening()
	p.stream()
	var ended int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE query LIKE '%LISTEN%' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()`, channelOf(t, pool, p.cfg)).Scan(&ended))
	assert.Equal(t, 1, ended)
	p.write()
	p.awaitListening()
	p.write()
	p.sees(seen)
}

func watchLeavesNothingBehind(t *testing.T, pool *pgxpool.Pool) {
	p := newPaced(t, pool)
	ctx, stop := context.WithCancel(t.Context())
	at, err := p.table.LatestVersion(t.Context())
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		for range p.table.WatchRanges(ctx, at, sixteenth()) {
		}
	}()
	p.awaitListening()
	p.stream()
	stop()
	<-ended
	whole := p.follow(p.table.Watch)
	p.awaitListening()
	for range 100 {
		p.write()
		p.sees(whole)
	}
}

func watchOfEverythingHasNoPace(t *testing.T, pool *pgxpool.Pool) {
	p := newPaced(t, pool)
	third := uint64(1<<32) / 3
	seen := p.follow(func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
		return p.table.WatchRanges(ctx, after, []informer.HashRange{{From: 0, To: third}, {From: third, To: 1 << 32}})
	})
	p.awaitListening()
	for i := range 300 {
		p.write()
		if i%2 == 0 {
			p.sees(seen)
		}
		_, deaf := p.listeners()
		require.Zero(t, deaf, fmt.Sprint("write ", i))
	}
}

// partly is a table whose watches have a pace.
type partly struct{ *postgres.Table[site] }

func (p partly) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return p.WatchRanges(ctx, after, sixteenth())
}

func watchOfRangesKeepsTheSourceContract(t *testing.T, pool *pgxpool.Pool) {
	keepsTheSourceContract(t, pool, func(table *postgres.Table[site]) informer.ListWatcher[site] { return partly{table} })
}
