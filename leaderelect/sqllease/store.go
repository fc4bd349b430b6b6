package sqllease

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
)

// Store is a leaderelect.LeaseStore and a shard.Lister in one table of a database, with one row per lease. The package
// documentation has its guarantees.
//
// All methods may be called concurrently.
//
// # Postgres
//
//   - Connect to the primary. With more than one host, set target_session_attrs=read-write. A replica that is behind
//     would delay takeovers, and accepts no writes.
//   - synchronous_commit must be on (the default), at least for this role. Otherwise a crash loses the last writes.
//   - A failover to an asynchronous replica loses the last writes too. An elector that has seen them notices
//     (leaderelect.ErrStoreRegressed). Others cannot, and two may lead until the old leader's next renewal. A synchronous
//     standby prevents that.
//   - Set idle_in_transaction_session_timeout to LeaseDuration or less, for the role of guarded transactions. Without it, a
//     leader that is suspended or cut off in such a transaction blocks its successor until it continues. Also set
//     tcp_keepalives_idle and tcp_keepalives_interval, so that the server notices that a client's machine is gone. By
//     default that takes two hours.
//   - Set client_connection_check_interval (Postgres 14 and newer) to about a second. Without it, the server notices a
//     dead client in the middle of a statement only when the statement ends. Until then, the dead leader's guarded
//     transaction delays its successor.
//   - If keys are not ASCII, the encoding of the database must be UTF8. Keys have at most 2,000 bytes.
//   - github.com/jackc/pgx/v5/stdlib returns when ctx ends, whatever the server does. Behind a pooler in transaction mode
//     it needs default_query_exec_mode=exec.
//   - github.com/lib/pq may ignore the end of ctx if the network drops all packets. An elector abandons such a call
//     safely, but Run then returns leaderelect.ErrStoreStuck. The suite leasetest hangs.
//
// # SQLite
//
//   - SQLite is for processes of one host, on a local file system.
//   - The store waits for other writers until ctx ends. If busy_timeout is set, SQLite waits too, and a driver does not
//     notice the end of ctx meanwhile. So it is best to give the store a pool of its own with a busy_timeout of 20 ms, or less. With
//     modernc.org/sqlite: "file:app.db?_pragma=busy_timeout(20)".
//   - Your own transactions need a longer busy_timeout, but one below StepDownTimeout, which is a sixth of LeaseDuration by default. With that, one
//     pool for both is safe. The errors of another driver may have no method Code() int that returns SQLITE_BUSY. With such a driver, the pool
//     of the store needs that busy_timeout too.
//   - Set journal_mode=WAL, so that reads do not wait for writes. In either mode, a commit survives the end of the
//     process, and with synchronous=FULL (the default) a crash of the machine.
//   - A process that is suspended (not killed) in the middle of a write holds the lock of the file. So no other process
//     can take over until it continues or dies. That is safe, but takes longer than LeaseDuration.
//   - Call Guard first in a transaction. After a read, a deferred transaction in WAL mode that is no longer current fails
//     with SQLITE_BUSY, and has to be retried as usual.
//
// # MySQL and MariaDB
//
// The tests use MariaDB 10.11 and github.com/go-sql-driver/mysql. What this page says about other versions of MariaDB, and about
// MySQL, follows from their manuals.
//
//   - Connect to the primary, and all processes to the same one. A Galera cluster or a group with several primaries was not tested:
//     use one of its nodes. A failover to an asynchronous replica loses the last writes, with the effect that it has on Postgres.
//   - innodb_flush_log_at_trx_commit must be 1 (the default). Otherwise a crash of the machine loses the last writes; with 0, a
//     crash of the server does too. The isolation level must not be READ UNCOMMITTED. autocommit must be on (the default), which
//     EnsureTable checks.
//   - Set innodb_lock_wait_timeout to about RequestTimeout, in whole seconds. The server does not notice that a client has given
//     up while a statement waits for a lock. Until this timeout (50 s by default), such a takeover occupies a connection of the
//     server, and it may still be done. That is safe, but costs the successor a LeaseDuration.
//   - Set idle_transaction_timeout (MariaDB), or wait_timeout (MySQL, and MariaDB too), to LeaseDuration or less, for the pool of
//     guarded transactions. Without it, a leader that is suspended or cut off in such a transaction blocks its successor for
//     wait_timeout, which is 8 hours by default. wait_timeout also ends connections that are idle in the pool: let
//     SetConnMaxIdleTime be shorter. interactive_timeout does not matter to a program.
//   - Set the driver's readTimeout and writeTimeout below StepDownTimeout, for the pools of the store and of guarded transactions,
//     but not for that of [Sessions]. The driver ends all calls with their context, but not a commit or a rollback.
//   - Set the driver's interpolateParams=true. Without it, each call is two round trips. clientFoundRows, parseTime, loc, and the
//     character set do not matter.
//   - A deadlock ends the whole transaction, and its guard. The next statement in the sql.Tx then commits on its own, without a
//     guard. So if a statement of a guarded transaction fails, return the error, and do not go on.
//   - The role needs SELECT, INSERT, and UPDATE on the table, and for guards only SELECT in MariaDB. The table needs InnoDB.
//   - A key makes a name of at most 2,000 bytes. A longer one is an error.
//
// In the data source name for MariaDB, all of this is:
//
//	app@tcp(db:3306)/shop?interpolateParams=true&readTimeout=2s&writeTimeout=2s&innodb_lock_wait_timeout=2&idle_transaction_timeout=10
type Store struct {
	db    *sql.DB
	stmt  statements
	works atomic.Bool // a statement on the table has succeeded
}

// New returns a store in a table of db. It does not close db. The table must exist before the store is used: see
// [Store.EnsureTable]. The error names each field of cfg that is out of its bounds. If db is nil, only the methods that
// return statements work: DDL and GuardQuery.
func New(db *sql.DB, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sqllease: new store: %w", err)
	}
	return &Store{db: db, stmt: statementsOf(cfg)}, nil
}

// Get returns the record, or leaderelect.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	e := leaderelect.Entry{Key: key}
	var term int64
	name, err := s.name(key)
	if err == nil {
		err = s.call(ctx, func() error {
			return s.db.QueryRowContext(ctx, s.stmt.get, name).Scan(&term, &e.Version, &e.Value)
		})
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = leaderelect.ErrNotFound
	case err == nil && term < 0:
		err = errNegative(term)
	}
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("sqllease: get %q: %w", key, err)
	}
	e.Term = uint64(term)
	return e, nil
}

// name returns the name of the row for a key, as a parameter.
func (s *Store) name(key string) (any, error) {
	name := nameOf(key)
	if s.stmt.dialect == MySQL && len(name) > mysqlName {
		return nil, retry.Permanent(fmt.Errorf("the key makes a name of %d bytes, must be at most %d", len(name), mysqlName))
	}
	return s.text(name), nil
}

// text returns a name, or a part of one, as a parameter. For MySQL that is bytes, which no character set changes.
func (s *Store) text(name string) any {
	if s.stmt.dialect == MySQL {
		return []byte(name)
	}
	return name
}

// errNegative is the error for a row that no store has written.
func errNegative(term int64) error { return fmt.Errorf("term %d is negative", term) }

// Create stores a new record, or returns leaderelect.ErrConflict. The term is at most math.MaxInt64.
func (s *Store) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	e, err := s.put(ctx, e, s.stmt.insert)
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("sqllease: create %q: %w", e.Key, err)
	}
	return e, nil
}

// Update replaces a record, or returns leaderelect.ErrConflict. The term is at most math.MaxInt64.
func (s *Store) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	e, err := s.put(ctx, e, s.stmt.update, e.Version)
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("sqllease: update %q: %w", e.Key, err)
	}
	return e, nil
}

// put stores e under a new version with a statement that changes one row or none.
func (s *Store) put(ctx context.Context, e leaderelect.Entry, statement string, more ...any) (leaderelect.Entry, error) {
	if e.Term > math.MaxInt64 {
		return e, fmt.Errorf("term %d is greater than %d", e.Term, int64(math.MaxInt64))
	}
	name, err := s.name(e.Key)
	if err != nil {
		return e, err
	}
	// Random, and not counted, so that a version is not reused even if the row was deleted or restored.
	e.Version, e.Floor = rand.Text(), 0
	e.Value = append([]byte{}, e.Value...) // never nil, which would be NULL
	args := append([]any{int64(e.Term), e.Version, e.Value, name}, more...)
	var changed int64
	err = s.call(ctx, func() error {
		done, err := s.db.ExecContext(ctx, statement, args...)
		if err == nil {
			changed, err = done.RowsAffected()
		} else if s.stmt.dialect == MySQL && mysqlNumber(err) == mysqlDuplicate {
			err = nil // nothing has changed
		}
		return err
	})
	if err == nil && changed == 0 {
		// A driver that lost its connection may have sent the statement twice, and failed with the second.
		err = s.call(ctx, func() error {
			return s.db.QueryRowContext(ctx, s.stmt.has, name, e.Version).Scan(&changed)
		})
	}
	if err == nil && changed == 0 {
		err = leaderelect.ErrConflict
	}
	return e, err
}

// List returns the records whose keys begin with prefix, sorted by key, all of one moment. It leaves out rows whose names
// no store has written.
func (s *Store) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	var list []leaderelect.Entry
	err := s.call(ctx, func() (err error) {
		list, err = s.list(ctx, prefix)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sqllease: list %q: %w", prefix, err)
	}
	slices.SortFunc(list, func(a, b leaderelect.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

func (s *Store) list(ctx context.Context, prefix string) (list []leaderelect.Entry, err error) {
	rows, err := s.db.QueryContext(ctx, s.stmt.list, s.text(prefixOf(prefix)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		var term int64
		var e leaderelect.Entry
		if err := rows.Scan(&name, &term, &e.Version, &e.Value); err != nil {
			return nil, err
		}
		key, ok := keyOf(name)
		if ok && strings.HasPrefix(key, prefix) {
			if term < 0 {
				return nil, fmt.Errorf("%q: %w", key, errNegative(term))
			}
			e.Key, e.Term = key, uint64(term)
			list = append(list, e)
		}
	}
	return list, rows.Err()
}
