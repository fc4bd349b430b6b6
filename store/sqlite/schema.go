package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// layout is the version of the tables.
const layout = 1

// tables has the statements, with the names of the tables filled in.
//
//   - log has a row for each change that is kept: the version, the kind and the key, and the record in binary form. The row with the
//     current state of a key is marked latest. If it is a tombstone, it is also marked deleted.
//   - state has one row: the layout, the version of the last change, and the horizon, which is the earliest version from which a watch can
//     start.
//   - fences has the greatest term of each lease, as eight bytes, because SQLite's integers are signed.
type tables struct {
	create                           []string
	exists, readState                string
	get, at, list, changes           string
	supersede, insert, advance, trim string
	term, recordTerm                 string
}

func newTables(prefix string) (t tables) {
	name := strings.NewReplacer("{", `"`+prefix, "}", `"`).Replace
	t.create = []string{
		name(`CREATE TABLE {log} (version INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL,
			latest INTEGER NOT NULL, deleted INTEGER NOT NULL, record BLOB NOT NULL) STRICT`),
		name(`CREATE UNIQUE INDEX {log_latest} ON {log} (kind, key) WHERE latest = 1`),
		name(`CREATE INDEX {log_past} ON {log} (version) WHERE latest = 0 OR deleted = 1`),
		name(`CREATE TABLE {state} (layout INTEGER NOT NULL, version INTEGER NOT NULL, horizon INTEGER NOT NULL) STRICT`),
		name(`CREATE TABLE {fences} (lease TEXT NOT NULL PRIMARY KEY, term BLOB NOT NULL) STRICT, WITHOUT ROWID`),
		name(fmt.Sprintf(`INSERT INTO {state} VALUES (%d, 0, 0)`, layout)),
	}
	t.exists = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`
	t.readState = name(`SELECT version, horizon FROM {state}`)
	t.get = name(`SELECT version, deleted, record FROM {log} WHERE kind = ? AND key = ? AND latest = 1`)
	t.at = name(`SELECT version FROM {log} WHERE kind = ? AND key = ? AND latest = 1`)
	t.list = name(`SELECT key, version, deleted, record FROM {log}
		WHERE kind = ? AND latest = 1 AND key > ? AND key >= ? AND (? = '' OR key < ?) ORDER BY key LIMIT ?`)
	t.changes = name(`SELECT key, version, deleted, record FROM {log}
		WHERE version > ? AND kind = ? ORDER BY version LIMIT ?`)
	t.supersede = name(`UPDATE {log} SET latest = 0 WHERE version = ?`)
	t.insert = name(`INSERT INTO {log} (version, kind, key, latest, deleted, record) VALUES (?, ?, ?, 1, ?, ?)`)
	t.advance = name(`UPDATE {state} SET version = ?, horizon = max(horizon, ?)`)
	t.trim = name(`DELETE FROM {log} WHERE version IN
		(SELECT version FROM {log} WHERE (latest = 0 OR deleted = 1) AND version <= ? ORDER BY version LIMIT 8)`)
	t.term = name(`SELECT term FROM {fences} WHERE lease = ?`)
	t.recordTerm = name(`INSERT INTO {fences} (lease, term) VALUES (?, ?) ON CONFLICT (lease) DO UPDATE SET term = excluded.term`)
	return t
}

// checkExisting returns an error if the file at an absolute path or its tables are missing. It changes neither, even if the file belongs to
// another program.
func (b *Backend) checkExisting(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	pool, err := openPool(path, url.Values{"mode": {"rw"}, "_pragma": {"query_only(1)"}}) // rw creates no file
	if err != nil {
		return err
	}
	var tables int
	err = b.whileBusy(ctx, func() error {
		return pool.QueryRowContext(ctx, b.tables.exists, b.cfg.TablePrefix+"state").Scan(&tables)
	})
	if err = errors.Join(err, pool.Close()); err != nil {
		return err
	}
	if tables == 0 {
		return fmt.Errorf("the file has no table %sstate, and Config.Existing is set", b.cfg.TablePrefix)
	}
	return nil
}

// setUp creates the tables, or checks that they have this layout, and prepares the statements.
func (b *Backend) setUp(ctx context.Context) error {
	if err := b.setUpTables(ctx); err != nil {
		return err
	}
	t := &b.tables
	err := b.write.prepare(ctx, t.readState, t.get, t.at, t.supersede, t.insert, t.advance, t.trim, t.term, t.recordTerm)
	if err != nil {
		return err
	}
	return b.read.prepare(ctx, t.readState, t.get, t.list, t.changes, t.term)
}

func (b *Backend) setUpTables(ctx context.Context) error {
	var encoding, mode string
	if err := b.write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the journal mode is %s, and SQLite refuses to make it WAL", mode)
	}
	if err := b.write.QueryRowContext(ctx, "PRAGMA encoding").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF-8" {
		return fmt.Errorf("the encoding of the file is %s, must be UTF-8", encoding)
	}
	tx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	var tables int
	if err := tx.QueryRowContext(ctx, b.tables.exists, b.cfg.TablePrefix+"state").Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		for _, statement := range b.tables.create {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("create the tables: %w", err)
			}
		}
		return tx.Commit()
	}
	var found int
	err = tx.QueryRowContext(ctx, `SELECT layout FROM "`+b.cfg.TablePrefix+`state"`).Scan(&found)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("the table %sstate has no row", b.cfg.TablePrefix)
	case err != nil:
		return fmt.Errorf("the table %sstate belongs to another program: %w", b.cfg.TablePrefix, err)
	case found != layout:
		return fmt.Errorf("the tables %s* have layout %d, this version of the library needs %d", b.cfg.TablePrefix, found, layout)
	}
	return nil
}
