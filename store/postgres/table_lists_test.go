//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// Three transactions get their numbers in order. Then each in turn, in every order, writes a row or not, and commits. A list falls before and
// after each. At the end, each list with the events after it has the rows of the table.
func TestEachListAndItsEventsLeadToTable(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	pool := connect(t, server.Addr())
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	name := sqlName(cfg)
	write := [...]string{
		``, `INSERT INTO ` + name + ` VALUES ('r', %d) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`, `DELETE FROM ` + name + ` -- %d`,
	}
	rev := 0
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for writes := range 27 {
			var txs []writer
			for range order {
				txs = append(txs, beginNumbered(t, pool, cfg))
			}
			round, lists := fmt.Sprintf("order %v:", order), []informer.List[site]{listOf(t, table)}
			for i, n := range order {
				if what := write[writes/[...]int{1, 3, 9}[i]%3]; what != "" {
					rev++
					exec(t, txs[n], fmt.Sprintf(what, rev))
					round += fmt.Sprintf(" %d: %s;", n, what[:6])
				}
				txs[n].commit()
				lists = append(lists, listOf(t, table))
			}
			want, last := rowsOf(t, pool, name), versionNow(t, pool, table)
			for i, l := range lists {
				got := map[string]site{}
				for _, s := range l.Items {
					got[s.Name] = s
				}
				applyEvents(t, table, got, l.Version, last)
				require.Equal(t, want, got, "%s list %d", round, i)
			}
		}
	}
}

func listOf(t *testing.T, table *postgres.Table[site]) informer.List[site] {
	t.Helper()
	l, err := table.List(t.Context())
	require.NoError(t, err)
	return l
}

// applyEvents applies the events between two versions to rows.
func applyEvents(t *testing.T, table *postgres.Table[site], rows map[string]site, after, upTo informer.Version) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, fmt.Errorf("no event or bookmark of version %d", upTo))
	defer cancel()
	for e, err := range table.Watch(ctx, after) {
		require.NoError(t, err)
		switch e.Type {
		case informer.Added, informer.Modified:
			rows[e.Object.Name] = e.Object
		case informer.Deleted:
			delete(rows, e.Object.Name)
		}
		if e.Version >= upTo {
			return
		}
	}
}
