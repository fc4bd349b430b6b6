//go:build linux

package binlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
)

// Each of these sources has one mistake, which the suite finds.
func TestSuiteNoticesEachBrokenTable(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for name, sabotage := range map[string]func(table *binlog.Table[site]) informer.ListWatcher[site]{
		"an old key is not reported": func(table *binlog.Table[site]) informer.ListWatcher[site] {
			return dbtest.AlterEvent(table, func(e *informer.Event[site]) bool { return e.Type != informer.Deleted })
		},
		"a row that cannot be read is deleted": func(table *binlog.Table[site]) informer.ListWatcher[site] {
			deleted := dbtest.AlterEvent(table, func(e *informer.Event[site]) bool {
				if e.Type == informer.Unreadable {
					e.Type, e.Err, e.KeyOnly = informer.Deleted, nil, true
				}
				return true
			})
			return dbtest.AlterPages(deleted, func(l *informer.List[site]) { l.Unread = nil })
		},
		"a deletion with only a key does not say so": func(table *binlog.Table[site]) informer.ListWatcher[site] {
			return dbtest.AlterEvent(table, func(e *informer.Event[site]) bool { e.KeyOnly = false; return true })
		},
		"the version of a list is that of its end": func(table *binlog.Table[site]) informer.ListWatcher[site] {
			return dbtest.AlterPages(table, func(l *informer.List[site]) { l.Version += 1 << 40 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var noticed []string
			for _, c := range informertest.Cases[site]() {
				message := dbtest.FailureWithin(t, 2*time.Second, func(r testing.TB) {
					db := newSites(t, server)
					c.Run(r, tabletest.Subject(t, db, sabotage(sitesIn(t, db, sitesOn(server)))))
				})
				if message != "" {
					noticed = append(noticed, c.Name+": "+message)
					break
				}
			}
			require.NotEmpty(t, noticed)
			t.Log(noticed)
		})
	}
}

// A table that reads rows when an event arrives, and not when its change is visible, misses changes. A server that waits for a replica before it
// commits, in vain, makes the time between the two long.
func TestLogAheadOfVisibilityIsNoticed(t *testing.T) {
	t.Parallel()
	server := newServer(t, "rpl-semi-sync-master-timeout=300", "rpl-semi-sync-master-wait-point=AFTER_SYNC", "rpl-semi-sync-master-wait-no-slave=1")
	for _, mistake := range []string{"", "early"} {
		t.Run(mistake, func(t *testing.T) {
			db := newSites(t, server)
			table := sitesIn(t, db, sitesOn(server))
			if mistake != "" {
				table.Break(mistake)
			}
			inf := tabletest.Follow(t, table, tabletest.SiteName)
			stale := 0
			for round := range 5 {
				tabletest.Do(t, db, "SET GLOBAL rpl_semi_sync_master_enabled = 0")
				tabletest.Do(t, db, "SET GLOBAL rpl_semi_sync_master_enabled = 1") // it is off after a wait in vain
				tabletest.Do(t, db, tabletest.PutSite, fmt.Sprint(round), round)
				require.NoError(t, inf.CatchUp(t.Context()))
				if got, ok := inf.Get(fmt.Sprint(round)); !ok || got.Rev != round {
					stale++
				}
			}
			if mistake == "" {
				require.Zero(t, stale)
				return
			}
			require.NotZero(t, stale)
			t.Logf("%d of 5 rows are missing", stale)
		})
	}
}

// Each of these tables has one mistake, which random writers find in a table of a kind.
func TestRandomWritersNoticeEachBrokenTable(t *testing.T) {
	t.Parallel()
	for mistake, kind := range map[string]string{
		"": "text that ignores case, accents, and spaces", "old keys": "composite, with numbers and times", "statements": "binary text",
	} {
		t.Run(mistake, func(t *testing.T) {
			server := newServer(t)
			k := tabletest.Kinds()[kind]
			_, db, table := newTable(t, server, k)
			if mistake != "" {
				table.Break(mistake)
			}
			m := tabletest.NewMirror(t, table)
			random := rand.New(rand.NewPCG(1, 7))
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			if mistake == "statements" {
				tabletest.Do(t, conn, "SET SESSION binlog_format = MIXED")
			}
			var noticed error
			for round := 0; round < 100 && noticed == nil; round++ {
				require.NoError(t, k.Transaction(t.Context(), conn, random))
				noticed = m.Compare(t.Context(), k, db, table, 5*time.Second, noDelay)
			}
			if mistake == "" {
				require.NoError(t, noticed)
				return
			}
			require.Error(t, noticed)
			t.Log(noticed)
		})
	}
}

// A table that does not look at the mark of a file takes the version of another log for one of its own.
func TestMarkTellsLogsApart(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server)
	table := sitesIn(t, db, sitesOn(server))
	tabletest.Do(t, db, tabletest.PutSite, "a", 1)
	l, err := table.List(t.Context())
	require.NoError(t, err)
	time.Sleep(1100 * time.Millisecond) // the server notes the second in which a file has begun
	tabletest.Do(t, db, "RESET MASTER")
	tabletest.Do(t, db, "DROP TABLE sites")
	tabletest.Do(t, db, strings.Replace(tabletest.CreateSites, "CREATE", "CREATE  ", 1))
	tabletest.Do(t, db, tabletest.PutSite, "b", 1)
	ends := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, err := range table.Watch(ctx, l.Version) {
			return err
		}
		return nil
	}
	require.ErrorIs(t, ends(), informer.ErrNewHistory)
	table.Break("any mark")
	require.NotErrorIs(t, ends(), informer.ErrNewHistory)
}
