//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func TestDividedTable(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "autovacuum=off")
	for name, test := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"a list of slots has the rows of the slots":       listOfSlotsHasTheirRows,
		"a cache follows the slots that are held":         cacheFollowsHeldSlots,
		"the index of SlotBy is used, and follows it":     indexOfSlotByIsUsed,
		"a wrong SlotBy is an error":                      wrongSlotByIsAnError,
		"SlotBy needs the encoding of Go":                 slotByNeedsUTF8,
		"partitions and inheritance keep the slots":       partitionsKeepSlots,
		"a table without SlotBy lists everything":         tableWithoutSlotByListsEverything,
		"slots that join keep the listening connection":   joiningSlotsKeepListener,
		"columns may have the names that our queries use": columnsMayHaveOurNames,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, server.Addr())) })
	}
}

// slotsOf returns this number of slots, for their hashes only.
func slotsOf(t testing.TB, n int) *shard.Slots {
	t.Helper()
	s, err := shard.New(shard.Config{
		Lease: leaderelect.Config{Store: memlease.New(), Key: "x", Identity: "x"}, Slots: n,
		OnAcquired: func(context.Context, int) error { return nil },
	})
	require.NoError(t, err)
	return s
}

// inSlots returns the names of the rows of slots, as the table lists them.
func inSlots(t *testing.T, table *postgres.Table[site], of *shard.Slots, slots ...int) []string {
	t.Helper()
	var ranges []informer.HashRange
	for _, slot := range slots {
		from, to := of.HashRange(slot)
		ranges = append(ranges, informer.HashRange{From: from, To: to})
	}
	list, err := informer.Collect(table.ListRanges(t.Context(), ranges))
	require.NoError(t, err)
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// dividedTable creates a table that is divided by an expression.
func dividedTable(t *testing.T, pool *pgxpool.Pool, by string) postgres.TableConfig {
	t.Helper()
	cfg := newTable(t, pool)
	cfg.SlotBy = by
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	return cfg
}

// theirSlots checks that each slot lists the rows for which shardKey returns a text of the slot.
func theirSlots(t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig, shardKey func(name string) string) {
	t.Helper()
	table := sitesIn(t, pool, cfg)
	list, err := table.List(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, list.Items)
	for _, n := range []int{1, 3, 64} {
		of, want := slotsOf(t, n), map[int][]string{}
		for _, s := range list.Items {
			slot := of.Slot(shardKey(s.Name))
			want[slot] = append(want[slot], s.Name)
		}
		for slot := range n {
			slices.Sort(want[slot])
			assert.Equal(t, want[slot], inSlots(t, table, of, slot), "slot %d of %d", slot, n)
		}
		var all []string
		for _, names := range want {
			all = append(all, names...)
		}
		slices.Sort(all)
		assert.Equal(t, all, inSlots(t, table, of, slices.Sorted(maps.Keys(want))...), "of %d slots", n)
	}
}

func listOfSlotsHasTheirRows(t *testing.T, pool *pgxpool.Pool) {
	cfg := dividedTable(t, pool, "split_part(name, '/', 1)")
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` SELECT 'owner' || n % 100 || '/child' || n, n FROM generate_series(1, 3000) n`)
	for i, name := range []string{"", "/", "Ünïcode ∆/日本", `back\slash`, "'quote'", `"`, "\t\n", strings.Repeat("long", 1000) + "/x", "a$1{slot by}"} {
		exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ($1, $2)`, name, i)
	}
	theirSlots(t, pool, cfg, func(name string) string {
		owner, _, _ := strings.Cut(name, "/")
		return owner
	})
}

func cacheFollowsHeldSlots(t *testing.T, pool *pgxpool.Pool) {
	cfg := dividedTable(t, pool, "name")
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` SELECT 'site' || n, n FROM generate_series(1, 1000) n`)
	of := slotsOf(t, 8)
	name := func(s site) string { return s.Name }
	in, err := informer.New(informer.Divide(sitesIn(t, pool, cfg), name), name, informer.Config{OnError: func(err error) { t.Log(err) }})
	require.NoError(t, err)
	in.Share(of.Slot, of.HashRange)
	looptest.Start(t, in.Run)
	want := func(slots ...int) {
		t.Helper()
		require.NoError(t, in.CatchUp(t.Context()))
		list, err := sitesIn(t, pool, cfg).List(t.Context())
		require.NoError(t, err)
		var held []string
		for _, s := range list.Items {
			if slices.Contains(slots, of.Slot(s.Name)) {
				held = append(held, s.Name)
			}
		}
		assert.ElementsMatch(t, held, slices.Collect(in.Keys()))
	}
	require.NoError(t, in.Hold(t.Context(), 2))
	want(2)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` SELECT 'new' || n, n FROM generate_series(1, 100) n`)
	exec(t, pool, `DELETE FROM `+sqlName(cfg)+` WHERE rev % 7 = 0`)
	want(2)
	require.NoError(t, in.Hold(t.Context(), 3))
	require.NoError(t, in.Hold(t.Context(), 7))
	want(2, 3, 7)
	in.Drop(2)
	require.NoError(t, in.Hold(t.Context(), 0))
	want(0, 3, 7)
}

func indexOfSlotByIsUsed(t *testing.T, pool *pgxpool.Pool) {
	cfg := dividedTable(t, pool, "name")
	indexes := func() (all []string) {
		t.Helper()
		rows, err := pool.Query(t.Context(), `SELECT indexname FROM pg_indexes WHERE tablename = $1 AND indexname LIKE 'setpoint%' ORDER BY 1`, cfg.Table)
		require.NoError(t, err)
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return all
	}
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` SELECT 'site' || n, n FROM generate_series(1, 20000) n`)
	exec(t, pool, `ANALYZE `+sqlName(cfg))
	first := indexes()
	require.Len(t, first, 1)
	scans := func() (n int) {
		t.Helper()
		require.Eventually(t, func() bool { // a session publishes its statistics a while after its transaction
			return pool.QueryRow(t.Context(), `SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1`, first[0]).Scan(&n) == nil && n > 0
		}, 30*time.Second, 50*time.Millisecond)
		return n
	}
	assert.InDelta(t, 20000*2/64, len(inSlots(t, sitesIn(t, pool, cfg), slotsOf(t, 64), 5, 9)), 100)
	assert.Positive(t, scans())

	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	assert.Equal(t, first, indexes(), "nothing has changed")
	cfg.SlotBy = "lower(name)"
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	assert.Len(t, indexes(), 1)
	assert.NotEqual(t, first, indexes())
	cfg.SlotBy = ""
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	assert.Empty(t, indexes())
}

func wrongSlotByIsAnError(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	for by, message := range map[string]string{
		"nme":              `column "nme" does not exist`,
		"name || random()": "IMMUTABLE",
		"name) x":          "syntax error",
		"name\x00":         "TableConfig.SlotBy",
	} {
		cfg.SlotBy = by
		assert.ErrorContains(t, postgres.InstallTable(t.Context(), pool, cfg), message)
	}
	cfg = dividedTable(t, pool, "upper(name)")
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` SELECT 'site' || n, n FROM generate_series(1, 50) n`)
	of, name := slotsOf(t, 4), func(s site) string { return s.Name }
	errs := make(chan error, 100)
	in, err := informer.New(informer.Divide(sitesIn(t, pool, cfg), name), name, informer.Config{OnError: func(err error) {
		select {
		case errs <- err:
		default:
		}
	}})
	require.NoError(t, err)
	in.Share(of.Slot, of.HashRange)
	looptest.Start(t, in.Run)
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() { held <- in.Hold(ctx, 1) }() // ends with ctx; waited for below
	assert.ErrorContains(t, <-errs, "the source has selected an object of another slot")
	cancel()
	require.ErrorIs(t, <-held, context.Canceled)
}

func slotByNeedsUTF8(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
	cfg := pool.Config().Copy()
	cfg.ConnConfig.Database = "latin"
	latin, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(latin.Close)
	table := dividedTable(t, latin, "name")
	_, err = postgres.NewTable(t.Context(), latin, pgx.RowToStructByName[site], table)
	require.ErrorContains(t, err, "TableConfig.SlotBy is set, so the database must have the encoding UTF8, not LATIN1")
	table.SlotBy = ""
	sitesIn(t, latin, table)
}

func partitionsKeepSlots(t *testing.T, pool *pgxpool.Pool) {
	cfg := postgres.TableConfig{Table: "parted", Schema: "parted log", SlotBy: "name"}
	exec(t, pool, `CREATE TABLE parted (name text PRIMARY KEY, rev integer) PARTITION BY RANGE (name)`)
	exec(t, pool, `CREATE TABLE parted_a PARTITION OF parted FOR VALUES FROM (MINVALUE) TO ('site3')`)
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	exec(t, pool, `CREATE TABLE parted_b PARTITION OF parted FOR VALUES FROM ('site3') TO (MAXVALUE)`)
	exec(t, pool, `INSERT INTO parted SELECT 'site' || n, n FROM generate_series(1, 1000) n`)
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	theirSlots(t, pool, cfg, func(name string) string { return name })

	cfg = dividedTable(t, pool, "name")
	exec(t, pool, fmt.Sprintf(`CREATE TABLE heir () INHERITS (%s)`, sqlName(cfg)))
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	exec(t, pool, `INSERT INTO heir SELECT 'heir' || n, n FROM generate_series(1, 100) n`)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` SELECT 'site' || n, n FROM generate_series(1, 100) n`)
	theirSlots(t, pool, cfg, func(name string) string { return name })
}

func tableWithoutSlotByListsEverything(t *testing.T, pool *pgxpool.Pool) {
	assert.Nil(t, sitesIn(t, pool, newTable(t, pool)).ListRanges(t.Context(), nil))
}

func columnsMayHaveOurNames(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE TABLE "r" ("t" text PRIMARY KEY, "r" text, "e" text, "setpoint_ranges" text)`)
	exec(t, pool, `INSERT INTO r SELECT n, 'of' || n, n, NULLIF('x' || n % 3, 'x0') FROM generate_series(1, 300) n`)
	for _, by := range []string{"t", "r", "setpoint_ranges"} {
		cfg := postgres.TableConfig{Table: "r", Schema: "r log", SlotBy: by, Columns: []string{"t", by}}
		if by == "t" {
			cfg.Columns = []string{"t", "r"}
		}
		require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
		table, err := postgres.NewTable(t.Context(), pool, func(row pgx.CollectableRow) (texts [2]string, err error) {
			var second *string
			if err = row.Scan(&texts[0], &second); second != nil {
				texts[1] = *second
			}
			return texts, err
		}, cfg)
		require.NoError(t, err)
		of := slotsOf(t, 8)
		n := 0
		for slot := range 8 {
			from, to := of.HashRange(slot)
			list, err := informer.Collect(table.ListRanges(t.Context(), []informer.HashRange{{From: from, To: to}}))
			require.NoError(t, err)
			for _, texts := range list.Items {
				text := texts[1] // "" for NULL
				if by == "t" {
					text = texts[0]
				}
				assert.Equal(t, slot, of.Slot(text), "%q", text)
				n++
			}
		}
		assert.Equal(t, 300, n)
	}
}

// A new connection for each slot would take longer than its list.
func joiningSlotsKeepListener(t *testing.T, pool *pgxpool.Pool) {
	own := pool.Config()
	own.ConnConfig.RuntimeParams["application_name"] = "joining"
	pool, err := pgxpool.NewWithConfig(t.Context(), own)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	name := func(s site) string { return s.Name }
	in, err := informer.New(informer.Divide(sitesIn(t, pool, dividedTable(t, pool, "name")), name), name, informer.Config{})
	require.NoError(t, err)
	slots := slotsOf(t, 8)
	in.Share(slots.Slot, slots.HashRange)
	looptest.Start(t, in.Run)
	require.NoError(t, in.Hold(t.Context(), 0))
	var before []int32
	require.Eventually(t, func() bool { before = listeners(t, pool); return len(before) > 0 }, 10*time.Second, time.Millisecond)
	for slot := range 8 {
		require.NoError(t, in.Hold(t.Context(), slot))
		require.NoError(t, in.CatchUp(t.Context()))
		assert.Equal(t, before, listeners(t, pool))
	}
}
