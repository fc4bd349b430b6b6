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
// thousands. A watch reads them all, in many pages. Each page has the present rows, and each version is that of a transaction. So the events
// up to a version concern all rows that were written up to there.
func TestPagesHaveEachKeyUpToVersion(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	from, err := table.Installed(t.Context())
	require.NoError(t, err)

	random := rand.New(rand.NewPCG(1, 0))
	var written []string // by each transaction
	var sql strings.Builder
	present := map[string]site{}
	var names []string                                                   // of all rows that ever were
	for _, again := range []float64{0, 0.5, 0, 0.0005, 0.02, 0, 0.002} { // how many transactions write an old row
		for range 3000 {
			rev := len(written)
			name := fmt.Sprint("site ", rev)
			if recent := len(names) - 1 - random.IntN(50); recent >= 0 && random.Float64() < again {
				name = names[recent]
			} else {
				names = append(names, name)
			}
			written = append(written, name)
			if _, there := present[name]; there && random.IntN(3) == 0 {
				delete(present, name)
				fmt.Fprintf(&sql, "BEGIN; DELETE FROM %s WHERE name = '%s'; COMMIT;\n", sqlName(cfg), name)
				continue
			}
			present[name] = site{name, rev}
			fmt.Fprintf(&sql, "BEGIN; INSERT INTO %[1]s VALUES ('%[2]s', %[3]d) ON CONFLICT (name) DO UPDATE SET rev = %[3]d; COMMIT;\n", sqlName(cfg), name, rev)
		}
	}
	require.NoError(t, pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		_, err := conn.Conn().PgConn().Exec(t.Context(), sql.String()).ReadAll()
		return err
	}))
	first, end := from+2, from+2*informer.Version(len(written)) // each transaction has the next number
	seen := map[string]bool{}
	last, checked := from, 0
	for e, err := range table.Watch(t.Context(), from) {
		require.NoError(t, err)
		require.Greater(t, e.Version, last)
		require.Equal(t, from%2, e.Version%2, "no watch that resumes repeats the transaction")
		last = e.Version
		want, there := present[e.Object.Name]
		if there {
			require.Equal(t, informer.Event[site]{Type: informer.Modified, Object: want, Version: last}, e)
		} else {
			require.True(t, e.KeyOnly)
		}
		seen[e.Object.Name] = true
		for ; checked < len(written) && first+2*informer.Version(checked) <= last; checked++ {
			require.True(t, seen[written[checked]], "version %d does not have %s", last, written[checked])
		}
		if last >= end {
			break
		}
	}
	assert.Equal(t, len(written), checked)
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
			rev, _ := values[last].(int32) // nil if the row is gone
			return site{fmt.Sprint(values[:last]), int(rev)}, nil
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
			if n == 3 {
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

// The log would not fit the new type, so the server refuses it until InstallTable is called in between, whichever writes would come then.
func TestTypeOfKeyChangesOnlyWithLog(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := postgres.TableConfig{Table: "growing", Schema: "growing log", Key: []string{"id"}}
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
	exec(t, pool, `UPDATE growing SET rev = 2`)
	const alter = `ALTER TABLE growing ALTER COLUMN id TYPE bigint; `
	_, err = pool.Exec(t.Context(), alter)
	require.ErrorContains(t, err, "cannot alter type of a column used in a trigger definition")
	sql, err := postgres.TableSQL(cfg)
	require.NoError(t, err)
	var trigger string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT tgname FROM pg_trigger WHERE tgname LIKE 'setpoint_key%'`).Scan(&trigger))
	exec(t, pool, `DROP TRIGGER `+trigger+` ON growing; `+alter+sql) // one transaction
	exec(t, pool, `INSERT INTO growing VALUES (10000000000, 3)`)
	exec(t, pool, `UPDATE growing SET rev = rev + 1`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var v informer.Version
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		v, err = table.VersionOf(ctx, tx)
		return err
	}))
	require.NoError(t, inf.WaitForVersion(ctx, v))
	assert.Equal(t, map[string]site{"1": {"1", 3}, "10000000000": {"10000000000", 4}}, cached(inf))
}

// The index of a primary key may include other columns, which do not identify a row.
func keyHasNoIncludedColumnsAndAnyOrder(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE TABLE including (rev integer, name text, country text, PRIMARY KEY (name, country) INCLUDE (rev))`)
	cfg := postgres.TableConfig{Table: "including", Columns: []string{"name", "country", "rev"}}
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	cfg.Key = []string{"country", "name"}
	type row struct {
		Name, Country string
		Rev           int
	}
	open := func(cfg postgres.TableConfig) *postgres.Table[row] {
		table, err := postgres.NewTable(t.Context(), pool, pgx.RowToStructByName[row], cfg)
		require.NoError(t, err)
		return table
	}
	one, other := open(postgres.TableConfig{Table: "including", Columns: cfg.Columns}), open(cfg)
	before, err := one.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO including VALUES (1, 'a', 'de')`)
	exec(t, pool, `UPDATE including SET rev = 2`)
	exec(t, pool, `UPDATE including SET country = 'fr'`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, table := range []*postgres.Table[row]{one, other} {
		var reported []string
		for e, err := range table.Watch(ctx, before.Version) {
			require.NoError(t, err)
			if e.Type == informer.Bookmark {
				continue
			}
			if reported = append(reported, fmt.Sprintf("%v %v", e.Type, e.Object)); len(reported) == 2 {
				break
			}
		}
		assert.Equal(t, []string{"Deleted {a de 0}", "Modified {a fr 2}"}, reported)
	}
}
