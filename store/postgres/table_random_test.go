//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// kind is a kind of table. Its statements name it public.T. A key is a row of values, made of a number.
type kind struct {
	create  string
	key     []string
	value   string // of a key; each %[1]d is its number
	update  string // of other columns
	reader  string // the role that reads; the owner if empty
	needs   string // an extension that may be missing on the server
	ordered bool   // no writer is in a session that applies replicated changes, in which the server does not check deferred keys
}

// kinds are tables of many kinds.
func kinds() map[string]kind {
	return map[string]kind{
		"plain": {
			create: `CREATE TABLE public.T (name text PRIMARY KEY, v integer)`,
			key:    []string{"name"}, value: `'name %[1]d'`, update: `v = coalesce(v, 0) + 1`,
		},
		"partitioned": {
			create: `CREATE TABLE public.T (region text, id integer, v integer, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
				CREATE TABLE public.T_a PARTITION OF public.T FOR VALUES IN ('a'); CREATE TABLE public.T_b PARTITION OF public.T FOR VALUES IN ('b')
				PARTITION BY RANGE (id); CREATE TABLE public.T_b1 PARTITION OF public.T_b FOR VALUES FROM (0) TO (5);
				CREATE TABLE public.T_other PARTITION OF public.T DEFAULT`,
			key: []string{"region", "id"}, value: `chr(97 + %[1]d %% 3), %[1]d / 3`, update: `v = coalesce(v, 0) + 1`,
		},
		"inherited": {
			create: `CREATE TABLE public.T (id integer PRIMARY KEY, v integer); CREATE TABLE public.T_child (PRIMARY KEY (id)) INHERITS (public.T);
				INSERT INTO public.T_child SELECT n + 100 FROM generate_series(1, 10) n`,
			key: []string{"id"}, value: `%[1]d`, update: `v = coalesce(v, 0) + 1`,
		},
		"unlogged": {
			create: `CREATE UNLOGGED TABLE public.T (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v integer, w integer GENERATED ALWAYS AS (v * 2) STORED)`,
			key:    []string{"id"}, value: `%[1]d`, update: `v = coalesce(v, 0) + 1`, ordered: true,
		},
		"composite": {
			create: `CREATE TYPE public.T_mood AS ENUM ('sad', 'glad'); CREATE DOMAIN public.T_day AS date NOT NULL CHECK (value > '1999-01-01');
				CREATE TABLE public.T (a text, b uuid, c numeric, d timestamptz, e public.T_mood, f public.T_day, g public.citext, h float8,
				i interval, v integer, PRIMARY KEY (f, a, b, c, d, e, g, h, i))`,
			key: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, update: `v = coalesce(v, 0) + 1`,
			value: `'a', md5((%[1]d / 2)::text)::uuid, trim_scale((%[1]d / 4)::numeric) + round(0::numeric, %[1]d %% 3), '2026-01-02'::timestamptz + %[1]d / 2 * interval '1 microsecond',
				(ARRAY['sad', 'glad'])[1 + %[1]d / 2 %% 2]::public.T_mood, ('2000-01-01'::date + %[1]d / 4)::public.T_day,
				(ARRAY['acme', 'Acme'])[1 + %[1]d %% 2]::public.citext, %[1]d / 2 / 3.0 * (CASE WHEN %[1]d = 0 THEN -1 ELSE 1 END)::float8,
				interval '1 month' - %[1]d / 2 * interval '1 day 03:00'`,
		},
		"guarded": {
			create: `CREATE TABLE public.T (id integer PRIMARY KEY, owner text NOT NULL DEFAULT 'random_reader', v integer); ALTER TABLE public.T ENABLE ROW LEVEL SECURITY;
				CREATE ROLE random_reader LOGIN; GRANT SELECT (id, owner) ON public.T TO random_reader; CREATE POLICY own ON public.T USING (owner = current_user)`,
			key: []string{"id"}, value: `%[1]d`, update: `owner = CASE owner WHEN 'other' THEN 'random_reader' ELSE 'other' END`, reader: "random_reader",
		},
		"documents": {
			create: `CREATE TABLE public.T (id integer PRIMARY KEY, h public.hstore, b jsonb, j json, f float8, r daterange, i interval)`,
			key:    []string{"id"}, value: `%[1]d`,
			update: `h = 'a=>NULL', b = CASE WHEN f > 1 THEN 'null'::jsonb END, j = '"\u0000"', f = coalesce(f, 0) + 1.0 / 3,
				r = daterange('2026-02-03', '2026-03-04'), i = interval '1 month' - interval '3 days'`,
		},
		"shapes": {
			create: `CREATE TABLE public.T (id integer PRIMARY KEY, p public.geometry(PointM, 4326), c public.geometry, g public.geography)`,
			key:    []string{"id"}, value: `%[1]d`, needs: "postgis",
			update: `p = public.ST_SetSRID(public.ST_MakePointM(1, 2, coalesce(public.ST_M(p), 0) + 1), 4326),
				c = 'COMPOUNDCURVE(CIRCULARSTRING(0 0, 1 1, 2 0), (2 0, 3 0))'::public.geometry, g = 'POINT EMPTY'::public.geography`,
		},
	}
}

// statement returns a random statement.
func (k kind) statement(random *rand.Rand) string {
	const keys = 12
	columns := strings.Join(k.key, ", ")
	value := func() string { return fmt.Sprintf(k.value, random.IntN(keys)) }
	row := func() string { return "ROW(" + value() + ")" }
	switch random.IntN(20) {
	default:
		return `INSERT INTO public.T (` + columns + `) VALUES (` + value() + `)`
	case 0, 1, 2, 3, 4, 5:
		return `UPDATE public.T SET ` + k.update + ` WHERE ROW(` + columns + `) = ` + row()
	case 6, 7, 8:
		return `DELETE FROM public.T WHERE ROW(` + columns + `) = ` + row()
	case 9, 10, 11:
		return `UPDATE public.T SET (` + columns + `) = ` + row() + ` WHERE ROW(` + columns + `) = ` + row()
	case 12:
		return `UPDATE public.T SET ` + k.update
	case 13:
		return `DELETE FROM public.T`
	case 14:
		if random.IntN(4) == 0 {
			return `TRUNCATE public.T`
		}
		return `SELECT pg_current_xact_id()`
	}
}

// session makes a random session of a writer.
func session(ctx context.Context, conn *pgx.Conn, random *rand.Rand, k kind) error {
	roles := []string{"origin", "origin", "replica", "local"}
	if k.ordered {
		roles = []string{"origin"}
	}
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	for _, statement := range []string{
		"DISCARD ALL",
		"SET DateStyle = " + one("'ISO, MDY'", "'SQL, DMY'", "'German'"),
		"SET IntervalStyle = " + one("postgres", "sql_standard", "iso_8601"),
		"SET extra_float_digits = " + one("1", "-15", "3"),
		"SET TimeZone = " + one("'UTC'", "'Asia/Kathmandu'", "'America/St_Johns'"),
		"SET search_path = " + one("public", "pg_temp, public", "''"),
		"SET default_transaction_isolation = " + one("'read committed'", "'repeatable read'", "'serializable'"),
		"SET session_replication_role = " + one(roles...),
	} {
		if _, err := conn.PgConn().Exec(ctx, statement).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

// write makes a transaction.
func (k kind) write(ctx context.Context, conn *pgx.Conn, random *rand.Rand, table string) error {
	mode := pgx.QueryExecModeExec
	if random.IntN(2) == 0 {
		mode = pgx.QueryExecModeSimpleProtocol
	}
	rollback := errors.New("roll back")
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for range 1 + random.IntN(4) {
			if _, err := tx.Exec(ctx, strings.ReplaceAll(k.statement(random), "public.T", "public."+table), mode); err != nil {
				return err
			}
			if random.IntN(4) == 0 {
				time.Sleep(time.Duration(random.IntN(int(time.Millisecond))))
			}
		}
		if random.IntN(6) == 0 {
			return rollback
		}
		return nil
	})
	var refused *pgconn.PgError
	if errors.Is(err, rollback) {
		return nil
	}
	if errors.As(err, &refused) {
		switch refused.Code {
		case "40P01", "40001", "23505", "55006": // a deadlock, another transaction, a duplicate, a key that is checked at the end
			return nil
		}
	}
	return err
}

// Writers in sessions of all kinds write tables of all kinds in overlapping transactions. In the end, each cache has the rows of its table, as
// its reader sees them, and byte by byte.
func TestCachesMatchTablesOfAllKinds(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "wal_level=logical", "deadlock_timeout=10ms")
	pool := connect(t, server.Addr())
	exec(t, pool, `CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE PUBLICATION everything FOR ALL TABLES`)
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const writers, transactions = 5, 60
			table := "random_" + name
			if k.needs != "" {
				if _, err := pool.Exec(t.Context(), `CREATE EXTENSION `+k.needs); err != nil {
					t.Skip(err)
				}
			}
			cfg := postgres.TableConfig{Table: table, Schema: "log of " + table, Poll: 50 * time.Millisecond}
			if k.reader != "" {
				cfg.Columns = []string{"id", "owner"}
			}
			exec(t, pool, strings.ReplaceAll(k.create, "public.T", "public."+table))
			require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
			reader := pool
			if k.reader != "" {
				mayRead(t, pool, cfg, k.reader)
				reader = poolAs(t, pool, k.reader, nil)
			}
			mirrors := []followed{followAny(t, reader, cfg, k.key...)}
			errs := make(chan error)
			for w := range writers {
				go func() { // the loop below waits for its error
					errs <- func() error {
						conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
						if err != nil {
							return err
						}
						defer conn.Close(context.WithoutCancel(t.Context()))
						random := rand.New(rand.NewPCG(uint64(w), uint64(len(name))))
						for n := range transactions * (*cycles) {
							if n%10 == 0 {
								if err := session(t.Context(), conn, random, k); err != nil {
									return err
								}
							}
							if err := k.write(t.Context(), conn, random, table); err != nil {
								return err
							}
						}
						return nil
					}()
				}()
			}
			for w := range writers {
				if w < 2 {
					mirrors = append(mirrors, followAny(t, reader, cfg, k.key...))
				}
				require.NoError(t, <-errs)
			}
			for _, m := range mirrors {
				m.agrees()
			}
		})
	}
}
