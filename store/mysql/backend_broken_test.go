//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql"
)

// checks are the checks of a Backend, of which each mistake below fails one.
var checks = map[string]func(t testing.TB, db *sql.DB, open func(history int) *mysql.Backend){
	"random writers": func(t testing.TB, db *sql.DB, open func(history int) *mysql.Backend) {
		writersAndWatchesAgree(t, db, []*mysql.Backend{open(0), open(0)})
	},
	"overtaken writes": func(t testing.TB, _ *sql.DB, open func(history int) *mysql.Backend) {
		dbtest.OvertakenWriteRestarts(t, open(0), open(0))
	},
	"the history": func(t testing.TB, db *sql.DB, open func(history int) *mysql.Backend) {
		dbtest.HistoryIsTrimmed(t, open(10), open(0), 10, func() int { return changesAndObjects(t, db) })
	},
	"a restored backup": func(t testing.TB, db *sql.DB, open func(history int) *mysql.Backend) {
		b := open(0)
		_, err := dbtest.Put(t.Context(), b, "kept", "1")
		require.NoError(t, err)
		restore := backupStore(t, db)
		var lost backend.Record
		for range 2 { // versions have a random part, so that one of the same change may be greater by chance
			lost, err = dbtest.Put(t.Context(), b, "lost", "1")
			require.NoError(t, err)
		}
		restore()
		next, err := dbtest.Put(t.Context(), b, "next", "1")
		require.NoError(t, err)
		require.Greater(t, next.Version, lost.Version)
		for _, err := range b.Watch(t.Context(), "app", backend.Query{}, lost.Version) {
			require.ErrorIs(t, err, informer.ErrNewHistory)
			break
		}
	},
}

// writersAndWatchesAgree makes writers increment counters through several handles, alone and in transactions of their own, of which some are
// rolled back. Watches report every change once, in order, and none that was rolled back, and no increment is lost.
func writersAndWatchesAgree(t testing.TB, db *sql.DB, handles []*mysql.Backend) {
	t.Helper()
	const writers, writes, counters = 8, 25, 3
	increment := func(have backend.Record) (*backend.Record, error) {
		n, _ := strconv.Atoi(string(have.Value))
		return &backend.Record{Meta: []byte("{}"), Value: []byte(strconv.Itoa(n + 1))}, nil
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	acknowledged := map[informer.Version]string{}
	var writing, watching sync.WaitGroup
	reported := make([][]informer.Version, len(handles))
	ends := make([]informer.Version, len(handles)) // of the watches, by their bookmarks
	last := make(chan informer.Version)            // closed by the test when end is set
	var end informer.Version
	for i, b := range handles {
		watching.Go(func() {
			for c, err := range b.Watch(ctx, "app", backend.Query{}, 0) {
				if err != nil {
					t.Errorf("a watch: %v", err)
					return
				}
				if c.Record.Key != "" {
					reported[i] = append(reported[i], c.Record.Version)
				}
				ends[i] = c.Version
				select {
				case <-last:
					if c.Version >= end {
						return
					}
				default:
				}
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			b := handles[w%len(handles)]
			for n := range writes {
				key := fmt.Sprint((w + n) % counters)
				var r backend.Record
				write := func(ctx context.Context) (err error) {
					r, err = b.Transact(ctx, "app", key, nil, increment)
					return err
				}
				var err error
				switch (w + n) % 4 {
				case 0:
					err = inStoreTx(ctx, db, func(ctx context.Context, _ *sql.Tx) error { return write(ctx) })
				case 1:
					err = inStoreTx(ctx, db, func(ctx context.Context, _ *sql.Tx) error { return errors.Join(write(ctx), errGone) })
					if errors.Is(err, errGone) {
						continue
					}
				default:
					err = write(ctx)
				}
				if err != nil {
					t.Errorf("a write: %v", err)
					return
				}
				mu.Lock()
				acknowledged[r.Version] = key
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	want := []informer.Version{}
	sums := map[string]int{}
	for v, key := range acknowledged {
		want = append(want, v)
		sums[key]++
	}
	slices.Sort(want)
	end = want[len(want)-1]
	close(last)
	_, err := handles[0].Transact(ctx, "other", "end", nil, increment) // so that each watch yields a bookmark
	if err != nil {
		t.Errorf("the last write: %v", err)
	}
	watching.Wait()
	for i := range handles {
		if !slices.Equal(reported[i], want) {
			t.Errorf("watch %d has reported %d changes up to %d, want the %d up to %d", i, len(reported[i]), ends[i], len(want), end)
		}
	}
	for key, n := range sums {
		r, err := handles[0].Get(ctx, "app", key)
		if err != nil || string(r.Value) != fmt.Sprint(n) {
			t.Errorf("counter %s is %s after %d increments: %v", key, r.Value, n, err)
		}
	}
}

// Each of these backends has one mistake, which a check finds.
func TestChecksNoticeEachBrokenBackend(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	run := func(t testing.TB, server *servertest.Server, check string, edit func(text string) string) string {
		one, _ := migrated(t, server)
		return dbtest.FailureWithin(t, 20*time.Second, func(t testing.TB) {
			checks[check](t, one, func(history int) *mysql.Backend {
				b, err := mysql.Open(t.Context(), one, mysql.Config{History: history, Poll: time.Millisecond})
				require.NoError(t, err)
				b.EditStatements(edit)
				return b
			})
		})
	}
	for check := range checks {
		require.Empty(t, run(t, server, check, func(text string) string { return text }), check)
	}
	for name, c := range map[string]struct{ check, old, new string }{
		"writers do not take turns":                      {"random writers", "WHERE id = 1 FOR UPDATE", "WHERE id = 1"},
		"a bookmark is ahead":                            {"random writers", "SELECT version, NULL AS `key`", "SELECT version + 999999999, NULL AS `key`"},
		"a change is reported again":                     {"random writers", "AND version > %[2]d ORDER", "AND version >= %[2]d ORDER"},
		"a page of a watch is cut":                       {"random writers", "ORDER BY version LIMIT %[3]d)", "ORDER BY version LIMIT 2)"},
		"a watch passes what was trimmed":                {"the history", "NULL AS value, horizon", "NULL AS value, 0 AS horizon"},
		"the horizon does not move":                      {"the history", "horizon = %d, n", "horizon = 0 * %d, n"},
		"tombstones stay":                                {"the history", "c.deleted = 1", "c.deleted = 2"},
		"changes stay":                                   {"the history", "DELETE FROM `setpoint_changes` WHERE n <= %d", "DELETE FROM `setpoint_changes` WHERE n < 0 * %d"},
		"too many changes are forgotten":                 {"the history", "DELETE FROM `setpoint_changes` WHERE n <= %d", "DELETE FROM `setpoint_changes` WHERE n <= 1 + %d"},
		"a term is recorded once":                        {"overtaken writes", "REPLACE INTO `setpoint_fences`", "INSERT IGNORE INTO `setpoint_fences`"},
		"a version of another history is not noticed":    {"a restored backup", "(SELECT COUNT(*) FROM `setpoint_changes` WHERE version = %[2]d)", "(SELECT COUNT(*) >= 0 FROM `setpoint_changes` WHERE version = %[2]d)"},
		"versions that were lost are assigned once more": {"a restored backup", "SELECT version, horizon, n, ", "SELECT version, horizon, n, 0 * "},
		"only the log is written":                        {"overtaken writes", "WHERE version BETWEEN %d AND %d", "WHERE version BETWEEN %d AND 0 * %d"},
	} {
		t.Run(name, func(t *testing.T) {
			found := false
			failure := run(t, server, c.check, func(text string) string {
				found = found || strings.Contains(text, c.old)
				return strings.ReplaceAll(text, c.old, c.new)
			})
			require.True(t, found)
			require.NotEmpty(t, failure)
			t.Log(strings.Join(strings.Fields(failure), " "))
		})
	}
}
