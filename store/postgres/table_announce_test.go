//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	for name, test := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"announcing transactions are serialized":                     announcingTransactionsAreSerialized,
		"a commit without a notification is seen soon":               unannouncedCommitIsSeenSoon,
		"a commit that was held up is seen soon":                     heldUpCommitIsSeenSoon,
		"every commit of many writers is seen soon":                  everyCommitIsSeenSoon,
		"a commit is seen at the next poll if announcements are off": commitIsSeenAtNextPollWithoutAnnouncements,
		"writers never wait for the locks of announcements":          writersNeverWaitForAnnouncementLocks,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, server.Addr())) })
	}
}

// seeded returns a table with the rows 0 to n-1.
func seeded(t *testing.T, pool *pgxpool.Pool, n int) postgres.TableConfig {
	t.Helper()
	cfg := newTable(t, pool)
	cfg.Poll = time.Hour // a watch looks every 2.5 s all the same, to tell bookmarks
	exec(t, pool, fmt.Sprintf(`INSERT INTO %s SELECT n, 0 FROM generate_series(0, %d) n`, sqlName(cfg), n-1))
	return cfg
}

// writer is a transaction that can write rows.
type writer struct {
	pgx.Tx
	t   *testing.T
	cfg postgres.TableConfig
}

func begin(t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig) writer {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return writer{tx, t, cfg}
}

// beginNumbered begins a transaction that has a number, as after a write.
func beginNumbered(t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig) writer {
	t.Helper()
	w := begin(t, pool, cfg)
	exec(t, w, `SELECT pg_current_xact_id()`)
	return w
}

func (w writer) write(row int) {
	w.t.Helper()
	exec(w.t, w, fmt.Sprintf(`UPDATE %s SET rev = rev + 1 WHERE name = '%d'`, sqlName(w.cfg), row))
}

func (w writer) pid() uint32 { return w.Conn().PgConn().PID() }

func (w writer) commit() {
	w.t.Helper()
	require.NoError(w.t, w.Commit(w.t.Context()))
}

// listen returns a function that returns the sessions that have notified since its last call, in order.
func listen(t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig) (heard func() []uint32) {
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	t.Cleanup(conn.Release)
	exec(t, conn, `LISTEN `+pgx.Identifier{channelOf(t, pool, cfg)}.Sanitize())
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), `UNLISTEN *`) })
	return func() (pids []uint32) {
		exec(t, pool, `SELECT pg_notify($1, 'end')`, channelOf(t, pool, cfg)) // comes after those of all commits before
		for {
			n, err := conn.Conn().WaitForNotification(t.Context())
			require.NoError(t, err)
			if n.Payload == "end" {
				return pids
			}
			pids = append(pids, n.PID)
		}
	}
}

func announcingTransactionsAreSerialized(t *testing.T, pool *pgxpool.Pool) {
	cfg := seeded(t, pool, 9)
	heard := listen(t, pool, cfg)
	write := func(row int) (pid uint32) {
		w := begin(t, pool, cfg)
		w.write(row)
		w.commit()
		return w.pid()
	}
	// Alone, each announces.
	assert.Equal(t, []uint32{write(0), write(0)}, heard())

	// While one is open that announces, no other does.
	first, silent := begin(t, pool, cfg), begin(t, pool, cfg)
	first.write(0)
	silent.write(1)
	write(2)
	assert.Empty(t, heard())
	first.commit()
	assert.Equal(t, []uint32{first.pid()}, heard())
	third := write(3)
	silent.commit()
	assert.Equal(t, []uint32{third}, heard(), "the lock is free again, and the silent connection stays silent")

	// A transaction that rolls back, or returns to a savepoint from before its write, gives the lock to the next.
	first, silent = begin(t, pool, cfg), begin(t, pool, cfg)
	exec(t, first, `SAVEPOINT s`)
	first.write(0)
	silent.write(1)
	exec(t, first, `ROLLBACK TO s`)
	second := write(2)
	silent.write(4) // tries again
	first.write(5)
	first.commit()
	assert.Equal(t, []uint32{second}, heard())
	silent.commit()
	assert.Equal(t, []uint32{silent.pid()}, heard())

	// A savepoint that is released keeps what it has.
	first = begin(t, pool, cfg)
	exec(t, first, `SAVEPOINT s`)
	first.write(0)
	exec(t, first, `RELEASE s`)
	write(2)
	first.commit()
	assert.Equal(t, []uint32{first.pid()}, heard())

	// A statement that changes no row announces nothing, and takes no lock.
	idle := begin(t, pool, cfg)
	exec(t, idle, `UPDATE `+sqlName(cfg)+` SET rev = 1 WHERE false`)
	last := write(2)
	idle.commit()
	assert.Equal(t, []uint32{last}, heard())

	// Another table has locks of its own.
	other := begin(t, pool, seeded(t, pool, 1))
	other.write(0)
	assert.Equal(t, []uint32{write(2)}, heard())
	other.commit()
}

// revisions returns a channel with the revision of each event of a watch, by name of the row. The watch listens already.
func revisions(t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig) <-chan site {
	seen := make(chan site, 10_000)
	_, err := follow(t, sitesIn(t, pool, cfg)).AddHandler(informer.Handler[string, site]{EveryEvent: true, OnUpdate: func(_, s site) { seen <- s }})
	require.NoError(t, err)
	w := begin(t, pool, cfg) // a commit that is seen proves that the watch follows
	w.write(0)
	w.commit()
	await(t, seen, site{"0", 1})
	return seen
}

// await waits for an event.
func await(t *testing.T, seen <-chan site, want site) {
	t.Helper()
	for {
		select {
		case s := <-seen:
			if s == want {
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%v was not seen", want)
		}
	}
}

func unannouncedCommitIsSeenSoon(t *testing.T, pool *pgxpool.Pool) {
	// The older one may be seen while the younger one is open, not the other way round.
	inFiveRounds(t, pool, func(older, younger writer, await func(row int)) {
		older.write(1)
		younger.write(2)
		older.commit()
		await(1)
		younger.commit()
		await(2)
	})
}

// The older transaction writes another table, so it does not notify.
func heldUpCommitIsSeenSoon(t *testing.T, pool *pgxpool.Pool) {
	inFiveRounds(t, pool, func(older, younger writer, await func(row int)) {
		younger.write(1)
		younger.commit()
		time.Sleep(20 * time.Millisecond) // the watch has seen the notification
		older.commit()
		await(1)
	})
}

// inFiveRounds calls do with two transactions, which have their numbers in this order, and with a function that waits until a watch has seen
// the write of a row in this round. If the watch did not look again after a notification, each round would take 2.5 s.
func inFiveRounds(t *testing.T, pool *pgxpool.Pool, do func(older, younger writer, await func(row int))) {
	t.Helper()
	cfg := seeded(t, pool, 3)
	seen := revisions(t, pool, cfg)
	start := time.Now()
	for round := 1; round <= 5; round++ {
		older, younger := beginNumbered(t, pool, cfg), begin(t, pool, cfg)
		do(older, younger, func(row int) { await(t, seen, site{fmt.Sprint(row), round}) })
	}
	assert.Less(t, time.Since(start), 5*time.Second)
}

// Writers overlap in bursts, so most of their commits are announced by others.
func everyCommitIsSeenSoon(t *testing.T, pool *pgxpool.Pool) {
	const writers, bursts, writes = 8, 20, 3
	cfg := seeded(t, pool, writers)
	seen := revisions(t, pool, cfg)
	type commit struct {
		site
		at time.Time
	}
	for burst := range bursts {
		commits := make(chan commit)
		for w := range writers {
			go func() { // ends after the last write; the test waits for all commits
				for i := range writes {
					c := commit{site: site{Name: fmt.Sprint(w)}}
					err := pgx.BeginFunc(context.WithoutCancel(t.Context()), pool, func(tx pgx.Tx) error {
						err := tx.QueryRow(t.Context(), `UPDATE `+sqlName(cfg)+` SET rev = rev + 1 WHERE name = $1 RETURNING rev`, c.Name).Scan(&c.Rev)
						time.Sleep(time.Duration((burst*7+w*3+i)%5) * 100 * time.Microsecond) // they overlap
						return err
					})
					assert.NoError(t, err)
					c.at = time.Now()
					commits <- c
				}
			}()
		}
		made := map[site]time.Time{}
		for range writers * writes {
			c := <-commits
			made[c.site] = c.at
		}
		for len(made) > 0 {
			select {
			case s := <-seen: // it may stand for earlier ones
				for c, at := range made {
					if c.Name == s.Name && c.Rev <= s.Rev {
						assert.Less(t, time.Since(at), 2*time.Second, s)
						delete(made, c)
					}
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%v were not seen", made)
			}
		}
	}
}

// The transaction that announces rolls back, so the other one is not announced.
func commitIsSeenAtNextPollWithoutAnnouncements(t *testing.T, pool *pgxpool.Pool) {
	cfg := seeded(t, pool, 3)
	cfg.Poll = 50 * time.Millisecond
	seen := revisions(t, pool, cfg)
	older, younger := begin(t, pool, cfg), begin(t, pool, cfg)
	younger.write(2)
	older.write(1)
	older.commit()
	require.NoError(t, younger.Rollback(t.Context()))
	await(t, seen, site{"1", 1})
}

// The user of the table has all locks that a table uses, and writers and watches continue.
func writersNeverWaitForAnnouncementLocks(t *testing.T, pool *pgxpool.Pool) {
	cfg := seeded(t, pool, 3)
	cfg.Poll = 50 * time.Millisecond
	seen := revisions(t, pool, cfg)
	taken := begin(t, pool, cfg)
	exec(t, taken, `SELECT pg_advisory_xact_lock(`+cfg.Lock()+`)`)
	w := begin(t, pool, cfg)
	w.write(1)
	w.commit()
	await(t, seen, site{"1", 1})
}
