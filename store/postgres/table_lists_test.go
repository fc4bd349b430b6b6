//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// Three or four transactions get their numbers in order. Then each in turn, in every order, writes a row, changes its key, deletes it, or does
// nothing, and commits. A list falls before and after each. At the end, each list with the events after it has the rows of the table, and so has
// the cache of an informer. A part of all ways to write is tried, another in each order, unless the flag cycles asks for more: a half of those of
// three transactions, and a 64th of those of four.
func TestEachListAndItsEventsLeadToTable(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	pool := connect(t, server.Addr())
	cfg := newTable(t, pool)
	cfg.Poll = 2 * time.Millisecond // the last version of a round is that of a transaction that does not notify
	table := sitesIn(t, pool, cfg)
	inf := follow(t, table)
	name := sqlName(cfg)
	write := [...]string{
		``, `INSERT INTO ` + name + ` VALUES ('r', %d) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`, `DELETE FROM ` + name + ` -- %d`,
		`UPDATE ` + name + ` SET name = CASE name WHEN 'r' THEN 's' ELSE 'r' END WHERE (SELECT count(*) FROM ` + name + `) < 2 -- %d`,
	}
	rev := 0
	for n, order := range append(orders(3), orders(4)...) {
		for writes := range 1 << (2 * len(order)) {
			if sample := [...]int{2, 64}[len(order)-3]; *cycles == 1 && writes%sample != n%sample {
				continue
			}
			var txs []writer
			for range order {
				txs = append(txs, beginNumbered(t, pool, cfg))
			}
			round, lists := fmt.Sprintf("order %v:", order), []informer.List[site]{listOf(t, table)}
			for i, n := range order {
				if what := write[writes>>(2*i)&3]; what != "" {
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
			passes(t, inf, last-1)
			require.Equal(t, want, cached(inf), round)
		}
	}
}

// orders returns all orders of the numbers below n.
func orders(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, shorter := range orders(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), i, n-1))
		}
	}
	return all
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
