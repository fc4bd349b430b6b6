package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// layout is the version of the schema.
const layout = 2

// schemaSQL creates a schema. {schema} stands for its name, and {name} for its name as text.
//
//   - objects has a row for each change that is kept. The row with the current state of a key is marked latest. If it is a tombstone, it
//     is also marked deleted.
//   - state has one row: the layout, the version of the last change, and the horizon, which is the earliest version from which a watch can
//     start. Its primary key, and that of gaps, is for publications, which need one.
//   - fences has the greatest term of each lease, as text of digits, since bigint is signed.
//   - incarnation has one row, which is gone when the server may have lost writes: the server empties an unlogged table when it recovers
//     from a crash, is promoted, or starts on a copy of a running server. After a restored dump, the row names another server.
//   - gaps has a row for each time that a write, or a watch at a lost version, found incarnation empty or wrong. The versions after one
//     number and before another were never assigned, or are lost. Without the gap, lost versions would be assigned again, and a watch that
//     has seen the lost ones would miss the new ones. For the size of a gap, see laterSQL.
//
// The function write compares and swaps. Each of its statements has its own snapshot, taken after the lock on state, which a single
// statement would not have. The setting setpoint.system caches the identifier of the server for the session, because pg_control_system
// reads a file. Temporary tables come last in its search path, so none is taken for one of these tables.
//
// schemaSQL creates what is not there, and replaces the function and the view. So it also makes layout 2 of layout 1, which had no primary
// keys in state and gaps, the schema pg_temp first in the search path, and a view that failed if a value was one that jsonb cannot hold.
const schemaSQL = `
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE IF NOT EXISTS {schema}.objects (
	version bigint PRIMARY KEY,
	kind text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	latest boolean NOT NULL,
	deleted boolean NOT NULL,
	record bytea NOT NULL,
	value bytea NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS objects_latest ON {schema}.objects (kind, key) WHERE latest;
CREATE INDEX IF NOT EXISTS objects_past ON {schema}.objects (version) WHERE NOT latest OR deleted;
CREATE INDEX IF NOT EXISTS objects_changes ON {schema}.objects (kind, version);

CREATE TABLE IF NOT EXISTS {schema}.state (
	layout integer NOT NULL,
	version bigint NOT NULL,
	horizon bigint NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS state_one_row ON {schema}.state ((true));

CREATE TABLE IF NOT EXISTS {schema}.fences (
	lease text COLLATE "C" PRIMARY KEY,
	term numeric(20) NOT NULL
);

CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.incarnation (system bigint NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.gaps (after bigint NOT NULL, before bigint NOT NULL);
DO $$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = {state}::regclass AND contype = 'p') THEN
		ALTER TABLE {schema}.state ADD PRIMARY KEY (layout);
		ALTER TABLE {schema}.gaps ADD PRIMARY KEY (after);
	END IF;
END $$;

CREATE OR REPLACE FUNCTION {schema}.readable(value bytea) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN convert_from(value, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex THEN
	BEGIN -- text in jsonb has no \u0000; an even number of backslashes before it is text
		RETURN regexp_replace(convert_from(value, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1\ufffd', 'g')::jsonb;
	EXCEPTION WHEN data_exception OR statement_too_complex THEN
		RETURN NULL;
	END;
END
$$;
CREATE OR REPLACE VIEW {schema}.current AS
	SELECT kind, key, version, {schema}.readable(value) AS value
	FROM {schema}.objects WHERE latest AND NOT deleted;

CREATE OR REPLACE FUNCTION {schema}.write(
	p_kind text, p_key text, p_have bigint, p_next boolean, p_deleted boolean, p_record bytea, p_value bytea,
	p_leases text[], p_terms text[], p_history bigint,
	OUT outcome text, OUT new_version bigint
) LANGUAGE plpgsql SET search_path = {schema}, pg_catalog, pg_temp AS $$
DECLARE
	v_version bigint;
	v_horizon bigint;
	v_system bigint;
	v_gap gaps%ROWTYPE;
	v_last_gap bigint;
	v_intact boolean;
BEGIN
	outcome := 'written';
	SELECT s.version INTO STRICT v_version FROM state s FOR UPDATE;
	v_system := nullif(current_setting('setpoint.system', true), '')::bigint;
	IF v_system IS NULL THEN
		SELECT c.system_identifier INTO STRICT v_system FROM pg_control_system() c;
		PERFORM set_config('setpoint.system', v_system::text, false);
	END IF;
	IF cardinality(p_leases) > 0 AND EXISTS (
		SELECT FROM unnest(p_leases, p_terms) AS p (lease, term) JOIN fences f USING (lease) WHERE f.term > p.term::numeric
	) THEN
		outcome := 'fenced';
		RETURN;
	END IF;
	IF p_next AND p_have > 0 THEN
		UPDATE objects o SET latest = false WHERE o.version = p_have AND o.latest
			RETURNING (SELECT max(g.before) FROM gaps g), EXISTS (SELECT FROM incarnation i WHERE i.system = v_system) INTO v_last_gap, v_intact;
	ELSE
		SELECT max(g.before), EXISTS (SELECT FROM incarnation i WHERE i.system = v_system) FROM gaps g INTO v_last_gap, v_intact
			HAVING p_have = coalesce((SELECT o.version FROM objects o WHERE o.kind = p_kind AND o.key = p_key AND o.latest), 0);
	END IF;
	IF NOT FOUND THEN
		outcome := 'conflict';
		RETURN;
	END IF;
	IF cardinality(p_leases) > 0 THEN
		INSERT INTO fences AS f (lease, term) SELECT p.lease, p.term::numeric FROM unnest(p_leases, p_terms) AS p (lease, term)
			ON CONFLICT (lease) DO UPDATE SET term = excluded.term WHERE f.term < excluded.term;
	END IF;
	IF NOT p_next THEN
		RETURN;
	END IF;
	IF NOT v_intact THEN
		v_gap.after := v_version;
		v_gap.before := v_version + {gap};
		INSERT INTO gaps VALUES (v_gap.*);
		DELETE FROM incarnation;
		INSERT INTO incarnation VALUES (v_system);
		v_last_gap := v_gap.before;
		v_version := v_gap.before - 1;
	END IF;
	new_version := v_version + 1;
	v_horizon := new_version - p_history;
	IF v_horizon < v_last_gap - 1 THEN
		FOR v_gap IN SELECT g.* FROM gaps g ORDER BY g.after DESC LOOP
			EXIT WHEN v_horizon >= v_gap.before - 1;
			v_horizon := v_horizon - (v_gap.before - 1 - v_gap.after);
		END LOOP;
	END IF;
	INSERT INTO objects (version, kind, key, latest, deleted, record, value)
		VALUES (new_version, p_kind, p_key, true, p_deleted, p_record, p_value);
	UPDATE state s SET version = new_version, horizon = greatest(s.horizon, v_horizon) RETURNING s.horizon INTO v_horizon;
	IF v_horizon > 0 THEN
		DELETE FROM objects o WHERE o.version IN (
			SELECT p.version FROM objects p WHERE (NOT p.latest OR p.deleted) AND p.version <= v_horizon ORDER BY p.version LIMIT 8
		);
	END IF;
	PERFORM pg_notify({channel}, '');
END
$$;

UPDATE {schema}.state SET layout = {layout};
WITH first AS (INSERT INTO {schema}.state SELECT {layout}, 0, 0 WHERE NOT EXISTS (SELECT FROM {schema}.state) RETURNING version)
	INSERT INTO {schema}.incarnation SELECT system_identifier FROM first, pg_control_system();
`

// laterSQL is a number of less than 2^44, to which a 12-day clock contributes the upper 24 bits, in sixteenths of a second, and chance the
// others. It is part of each step after a loss. If two servers continue from the same version, they leave different gaps. That of the later
// one is greater, unless the clock begins again in between. So caches that have seen the earlier server accept the lists of the later one.
const laterSQL = `(((floor(extract(epoch FROM clock_timestamp()) * 16)::bigint & 16777215) << 20) + floor(random() * 1048576)::bigint)`

// gapSQL is the size of a gap in the versions of a schema.
const gapSQL = `(1::bigint << 40) + ` + laterSQL

// quote returns text as an SQL literal.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// channelOf returns the notification channel of a schema. The name of a channel must be shorter than that of a schema may be.
func channelOf(schema string) string { return "setpoint_" + fingerprint(schema) }

// SQL returns the statements that [Migrate] runs. Run them in one transaction. They also make the present layout of an older one.
func SQL(cfg Config) (string, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return "", fmt.Errorf("postgres: SQL: %w", err)
	}
	return sqlOf(cfg), nil
}

func sqlOf(cfg Config) string {
	return strings.NewReplacer(
		"$$", bodyQuote([]string{cfg.Schema}), "{schema}", pgx.Identifier{cfg.Schema}.Sanitize(), "{channel}", quote(channelOf(cfg.Schema)),
		"{state}", quote(pgx.Identifier{cfg.Schema, "state"}.Sanitize()), "{layout}", fmt.Sprint(layout),
		"{gap}", gapSQL,
	).Replace(schemaSQL)
}

// Migrate creates the schema of cfg, with everything in it, in one transaction. If the schema exists and is complete, Migrate changes
// nothing. If it is of an older layout, Migrate changes that. Programs with an older version of the library go on writing it, but can no longer
// open it. If it is incomplete, or of a later layout, Migrate returns an error. Call it when you deploy. Several processes may call it at
// once. It needs the right to create a schema in the database. If an administrator runs the statements, use [SQL].
//
// Objects are in the table objects of the schema, and the view current shows the live ones:
//
//	SELECT key, value->>'Image' FROM setpoint.current WHERE kind = 'App';
//
// In this view, a NUL in a text is U+FFFD. A value that jsonb cannot hold for another reason is null.
func Migrate(ctx context.Context, pool *pgxpool.Pool, cfg Config) error {
	if pool == nil {
		panic("postgres: Migrate called with a nil pool")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	err := pgx.BeginTxFunc(ctx, pool, writing(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockSchemaSQL, cfg.Schema); err != nil {
			return err
		}
		switch missing, found, err := inspect(ctx, tx, cfg.Schema); {
		case err != nil:
			return err
		case len(missing) == 0 && found > 0 && found < layout: // the statements below migrate it
		case len(missing) == 0:
			return checkLayout(found)
		case len(missing) < len(parts):
			return fmt.Errorf("it is incomplete: it has no %s", strings.Join(missing, ", no "))
		}
		_, err := tx.Exec(ctx, sqlOf(cfg))
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres: migrate schema %q: %w", cfg.Schema, err)
	}
	return nil
}

// lockSchemaSQL lets only one transaction at a time create what is in a schema. Without it, two that create the schema at once would fail.
const lockSchemaSQL = "SELECT pg_advisory_xact_lock(hashtext('setpoint migrate ' || $1::text))"

// parts are the tables and functions that a schema must have.
var parts = []string{"table objects", "table state", "table fences", "table gaps", "table incarnation", "function write"}

// inspect returns the parts that the schema lacks and, if it lacks none, its layout.
func inspect(ctx context.Context, from queryer, schema string) (missing []string, found int, err error) {
	const query = `SELECT 'table ' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname IN ('objects', 'state', 'fences', 'gaps', 'incarnation')
		UNION ALL SELECT 'function ' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
			WHERE n.nspname = $1 AND p.proname = 'write'`
	rows, err := from.Query(ctx, query, schema)
	if err != nil {
		return nil, 0, err
	}
	have, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, 0, err
	}
	for _, part := range parts {
		if !slices.Contains(have, part) {
			missing = append(missing, part)
		}
	}
	if len(missing) > 0 {
		return missing, 0, nil
	}
	err = from.QueryRow(ctx, "SELECT layout FROM "+pgx.Identifier{schema, "state"}.Sanitize()).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("its table state has no row")
	}
	return nil, found, err
}

func checkLayout(found int) error {
	if found != layout {
		todo := ""
		if found < layout {
			todo = ": call postgres.Migrate"
		}
		return fmt.Errorf("it has layout %d, this version of the library needs %d%s", found, layout, todo)
	}
	return nil
}

// check returns an error if the schema cannot be used.
func (b *Backend) check(ctx context.Context) error {
	missing, found, err := inspect(ctx, b.pool, b.cfg.Schema)
	switch {
	case err != nil:
		return err
	case len(missing) == len(parts):
		return errors.New("it does not exist: call postgres.Migrate once")
	case len(missing) > 0:
		return fmt.Errorf("it is incomplete: it has no %s", strings.Join(missing, ", no "))
	}
	return checkLayout(found)
}
