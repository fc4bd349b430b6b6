//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
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

// Each transaction writes one row. In some parts of the log, nearly every row is written again soon. In others, no row is, or one in
// thousands. A watch reads them all, in many pages, and reports the row after each transaction.
func TestPagesReportRowAfterEachTransaction(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	for i, index := range []string{"PRIMARY KEY", ""} {
		cfg := postgres.TableConfig{Table: fmt.Sprint("paged", i), Key: []string{"name"}, Schema: fmt.Sprint("log of pages ", i)}
		exec(t, pool, fmt.Sprintf(`CREATE TABLE %s (name text NOT NULL %s, rev integer NOT NULL)`, sqlName(cfg), index))
		require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
		table := sitesIn(t, pool, cfg)
		from, err := table.Installed(t.Context())
		require.NoError(t, err)

		random := rand.New(rand.NewPCG(1, uint64(i)))
		var want []informer.Event[site]
		var sql strings.Builder
		var rows []site // that are there
		write := func(kind informer.EventType, s site, statement string) {
			want = append(want, informer.Event[site]{Type: kind, Object: s})
			fmt.Fprintf(&sql, "BEGIN; "+statement+"; COMMIT;\n", sqlName(cfg), s.Name, s.Rev)
		}
		for _, again := range []float64{0, 0.5, 0, 0.0005, 0.02, 0, 0.002} { // how many transactions write an old row
			for range 3000 {
				recent := len(rows) - 1 - random.IntN(50)
				switch {
				case recent < 0 || random.Float64() >= again:
					rows = append(rows, site{fmt.Sprint("site ", len(want)), 0})
					write(informer.Added, rows[len(rows)-1], "INSERT INTO %s VALUES ('%s', %d)")
				case random.IntN(3) == 0:
					write(informer.Deleted, rows[recent], "DELETE FROM %s WHERE name = '%s' AND rev = %d")
					rows = append(rows[:recent], rows[recent+1:]...)
				default:
					rows[recent].Rev++
					write(informer.Modified, rows[recent], "UPDATE %[1]s SET rev = %[3]d WHERE name = '%[2]s'")
				}
			}
		}
		require.NoError(t, pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
			_, err := conn.Conn().PgConn().Exec(t.Context(), sql.String()).ReadAll()
			return err
		}))

		n, last := 0, from
		for e, err := range table.Watch(t.Context(), from) {
			require.NoError(t, err)
			require.Greater(t, e.Version, last, "each transaction has a version")
			last, e.Version = e.Version, 0
			require.Equal(t, want[n], e, "event %d", n)
			if n++; n == len(want) {
				break
			}
		}
	}
}

// The columns of a key may have any type that can be compared, and an integer may become larger while a watch follows the table.
func TestKeyOfAnyTypeIsFollowed(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	exec(t, pool, `CREATE TYPE color AS ENUM ('1', '2', '3'); CREATE DOMAIN label AS text`)
	for i, c := range []struct{ columns, key, value string }{
		{"k text", "k", "n"},
		{`k text COLLATE "en-x-icu"`, "k", "'Ä' || n"},
		{"k varchar(10)", "k", `n || '"\'''`},
		{"k char(5)", "k", "n"},
		{"k label", "k", "n"},
		{"k color", "k", "n::text::color"},
		{"k smallint", "k", "-n"},
		{"k integer", "k", "n"},
		{"k bigint", "k", "n + 10000000000"},
		{"k uuid", "k", "md5(n::text)::uuid"},
		{"k numeric(20, 3)", "k", "n + 0.5"},
		{"k date", "k", "'2000-01-01'::date + n::integer"},
		{"k bytea", "k", "decode(md5(n::text), 'hex')"},
		{"k timestamptz", "k", "'2000-01-01'::timestamptz + n * '1 microsecond'::interval"},
		{"k integer[]", "k", "ARRAY[n, 2]"},
		{`"K" integer, k text`, `"K", k`, "n, 'x'"},
		{"k integer, d date", "k, d", "n, '2000-01-01'::date"},
	} {
		cfg := postgres.TableConfig{Table: fmt.Sprint("keys", i), Schema: fmt.Sprint("log of keys ", i)}
		exec(t, pool, fmt.Sprintf(`CREATE TABLE %s (%s, rev integer NOT NULL, PRIMARY KEY (%s))`, cfg.Table, c.columns, c.key))
		require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
		table, err := postgres.NewTable(t.Context(), pool, func(row pgx.CollectableRow) (site, error) {
			values, err := row.Values()
			if err != nil {
				return site{}, err
			}
			last := len(values) - 1
			return site{fmt.Sprint(values[:last]), int(values[last].(int32))}, nil
		}, cfg)
		require.NoError(t, err)
		from, err := table.Installed(t.Context())
		require.NoError(t, err)
		statements := []string{
			fmt.Sprintf(`INSERT INTO %s SELECT %s, 1 FROM generate_series(1, 3) n`, cfg.Table, c.value),
			fmt.Sprintf(`UPDATE %s SET rev = 2`, cfg.Table),
			fmt.Sprintf(`DELETE FROM %[1]s WHERE (%[2]s) = (SELECT %[2]s FROM %[1]s ORDER BY 1 LIMIT 1)`, cfg.Table, c.key),
		}
		for _, statement := range statements {
			exec(t, pool, statement)
		}
		rows := map[string]int{}
		n := 0
		for e, err := range table.Watch(t.Context(), from) {
			require.NoError(t, err, c.columns)
			switch n++; {
			case e.Type == informer.Deleted:
				delete(rows, e.Object.Name)
			default:
				rows[e.Object.Name] = e.Object.Rev
			}
			if n == 7 {
				break
			}
		}
		list, err := table.List(t.Context())
		require.NoError(t, err)
		want := map[string]int{}
		for _, s := range list.Items {
			want[s.Name] = s.Rev
		}
		assert.Len(t, want, 2, c.columns)
		assert.Equal(t, want, rows, c.columns)
	}
}

func TestIntegerKeyMayGrowDuringWatch(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := postgres.TableConfig{Table: "growing", Schema: "growing log"}
	exec(t, pool, `CREATE TABLE growing (id integer PRIMARY KEY, rev integer NOT NULL); INSERT INTO growing VALUES (1, 1)`)
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	table, err := postgres.NewTable(t.Context(), pool, func(row pgx.CollectableRow) (s site, err error) {
		var id int64
		err = row.Scan(&id, &s.Rev)
		s.Name = fmt.Sprint(id)
		return s, err
	}, cfg)
	require.NoError(t, err)
	inf := follow(t, table)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, statement := range []string{
		`UPDATE growing SET rev = 2`,
		`ALTER TABLE growing ALTER COLUMN id TYPE bigint`,
		`INSERT INTO growing VALUES (10000000000, 3)`,
		`UPDATE growing SET rev = rev + 1`,
	} {
		var v informer.Version
		require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(ctx, statement); err == nil {
				v, err = table.VersionOf(ctx, tx)
			}
			return err
		}))
		require.NoError(t, inf.WaitForVersion(ctx, v))
	}
	assert.Equal(t, map[string]site{"1": {"1", 3}, "10000000000": {"10000000000", 4}}, cached(inf))
}

// The index of a primary key may include other columns, which do not identify a row.
func keyHasNoIncludedColumnsAndAnyOrder(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE TABLE including (rev integer, name text, country text, PRIMARY KEY (name, country) INCLUDE (rev))`)
	cfg := postgres.TableConfig{Table: "including", Columns: []string{"name", "rev"}}
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	cfg.Key = []string{"country", "name"}
	one, other := sitesIn(t, pool, postgres.TableConfig{Table: "including", Columns: cfg.Columns}), sitesIn(t, pool, cfg)
	before, err := one.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO including VALUES (1, 'a', 'de')`)
	exec(t, pool, `UPDATE including SET rev = 2`)
	exec(t, pool, `UPDATE including SET country = 'fr'`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, table := range []*postgres.Table[site]{one, other} {
		var told []string
		for e, err := range table.Watch(ctx, before.Version) {
			require.NoError(t, err)
			if e.Type == informer.Bookmark {
				continue
			}
			if told = append(told, fmt.Sprintf("%v %v", e.Type, e.Object)); len(told) == 4 {
				break
			}
		}
		assert.Equal(t, []string{"Added {a 1}", "Modified {a 2}", "Deleted {a 2}", "Added {a 2}"}, told)
	}
}
