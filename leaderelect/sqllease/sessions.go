package sqllease

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// Sessions implements leaderelect.Sessions on Postgres, MySQL, and MariaDB: early takeovers.
//
// They report a release to followers within milliseconds. If every write of the leader is guarded, a follower need not wait for the
// lease: it can take over within milliseconds after the leader's process was killed:
//
//	sessions, err := sqllease.NewSessions(db, sqllease.SessionsConfig{})
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store:    leases,
//		Sessions: sessions,
//		Fenced:   true, // every write is in a transaction with Guard, or carries its term
//		...
//
// Without Fenced, sessions only report releases, and are safe for any work. NOTIFY would also report renewals. But
// commits that notify wait for each other (https://www.recall.ai/blog/postgres-listen-notify-does-not-scale), and package
// database/sql cannot listen.
//
// A session is an advisory lock of a connection: pg_try_advisory_lock of a random 64-bit number, or GET_LOCK of a random name. When the process ends,
// the operating system closes its connections, and the server releases the lock. A follower that waits for the lock then
// gets it.
//
//   - Each elector permanently uses two connections: one holds its session, one waits for the end of the leader's
//     session. A pool with a limit needs two more connections per elector, or renewals never get one. Alternatively, give
//     the sessions a pool of their own.
//   - A pooler such as PgBouncer works in session mode only. Avoid it if you can: it may keep the connection of a client
//     that has ended. In transaction mode, a session is lost at the first check.
//   - All electors must reach the same database of the same primary, because advisory locks belong to one database, or in
//     MySQL and MariaDB to one server. A standby, or a server that is read_only, is refused.
//   - If a machine disappears without closing its connections, its session lasts until TCP keepalives end it. A suspended
//     process keeps its session. In both cases followers wait for the lease.
//   - A readTimeout of the driver of MySQL ends waits. Do not set it for the pool of the sessions.
//   - A server whose idle_session_timeout or wait_timeout is shorter than CheckPeriod ends sessions. A restart ends all of them. Leaders
//     notice after CheckPeriod, and followers ask again after RetryPeriod. So a leader that has renewed by then stays.
//   - A takeover waits for guarded transactions of the old leader. They end with its connections.
//
// All methods may be called concurrently.
type Sessions struct {
	db  *sql.DB
	cfg SessionsConfig
}

// SessionsConfig configures [Sessions]. The zero value is ready for Postgres.
type SessionsConfig struct {
	// Dialect is Postgres or MySQL. Defaults to Postgres.
	Dialect Dialect

	// CheckPeriod is the time between two checks of the connection that holds a session. A check lets the process notice
	// that it has lost the session, so that it opens another one. Other processes learn that from the server. Use less
	// than RetryPeriod, so that a leader whose connections were cut reports that before a follower takes over. Defaults
	// to 1s.
	CheckPeriod time.Duration

	_ [0]func()
}

// NewSessions returns sessions on connections of db: two at a time for each elector. It does not close db. All electors
// of a lease must reach the same database of the same server. The error names each field of cfg that is out of its
// bounds. NewSessions panics if db is nil.
func NewSessions(db *sql.DB, cfg SessionsConfig) (*Sessions, error) {
	if db == nil {
		panic("sqllease: NewSessions: the database is nil")
	}
	cfg.CheckPeriod = cmp.Or(cfg.CheckPeriod, time.Second)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sqllease: new sessions: %w", err)
	}
	return &Sessions{db: db, cfg: cfg}, nil
}

// validate returns an error that names each field that is out of its bounds.
func (c SessionsConfig) validate() error {
	var errs []error
	if c.Dialect != Postgres && c.Dialect != MySQL {
		errs = append(errs, fmt.Errorf("SessionsConfig.Dialect is %v, must be Postgres or MySQL", c.Dialect))
	}
	if c.CheckPeriod < 0 {
		errs = append(errs, fmt.Errorf("SessionsConfig.CheckPeriod is %s, must not be negative", c.CheckPeriod))
	}
	return problems.Join(errs...)
}

const (
	// A pooler may change the connection to the server. The process ID of the server shows that.
	holdLock   = `SELECT pg_try_advisory_lock($1), pg_backend_pid(), pg_is_in_recovery()`
	backendPID = `SELECT pg_backend_pid()`

	// The lock is shared, so that all waiters get it at once, and it is released by the end of the transaction.
	limitWait = `SELECT set_config('lock_timeout', '60s', true), set_config('statement_timeout', '0', true), pg_is_in_recovery()`
	awaitLock = `SELECT pg_advisory_xact_lock_shared($1)`

	// A replica is read-only; newer servers have words for that.
	mysqlHold         = `SELECT coalesce(get_lock(?, 0), 0) = 1, connection_id(), @@global.read_only NOT IN ('0', 'OFF')`
	mysqlConnectionID = `SELECT connection_id()`

	// The lock has one holder. So the statement that gets it releases it, before the next waiter gets it.
	mysqlAwait = `SELECT if(get_lock(?, 60) = 1, release_lock(?), 0), @@global.read_only NOT IN ('0', 'OFF')`
)

// waitLimit is how long a statement waits for a lock. While a connection waits for a lock, Postgres does not notice that its
// client has ended. So the wait is restarted regularly.
const waitLimit = time.Minute

// checkTimeout is how long a connection may take to answer.
const checkTimeout = 5 * time.Second

var (
	errTaken           = errors.New("another connection has its lock")
	errStillHeld       = errors.New("another connection still has its lock")
	errStandby         = errors.New("the server is a standby, which has locks of its own")
	errOtherConnection = errors.New("the server process has changed: is a pooler in between?")
)

// Hold holds the session on a separate connection, until ctx ends or the connection is lost.
func (s *Sessions) Hold(ctx context.Context, name string, held func()) error {
	if err := s.hold(ctx, name, held); err != nil {
		return fmt.Errorf("sqllease: hold session %q: %w", name, err)
	}
	return nil
}

func (s *Sessions) hold(ctx context.Context, name string, held func()) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	// The connection must not return to the pool with its lock.
	defer func() {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	var taken, standby bool
	var pid int64
	statement, id := holdLock, backendPID
	if s.cfg.Dialect == MySQL {
		statement, id = mysqlHold, mysqlConnectionID
	}
	if err := conn.QueryRowContext(ctx, statement, s.lockOf(name)).Scan(&taken, &pid, &standby); err != nil {
		return err
	}
	if standby {
		return errStandby
	}
	if !taken {
		return errTaken
	}
	held()
	ticker := time.NewTicker(s.cfg.CheckPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if err := check(ctx, conn, id, pid); err != nil {
			return err
		}
	}
}

// check returns nil if conn still reaches the process or the connection of the server with the given ID.
func check(ctx context.Context, conn *sql.Conn, id string, pid int64) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var now int64
	if err := conn.QueryRowContext(ctx, id).Scan(&now); err != nil {
		return err
	}
	if now != pid {
		return errOtherConnection
	}
	return nil
}

// AwaitEnd blocks while a connection holds the session, and then returns nil.
func (s *Sessions) AwaitEnd(ctx context.Context, name string) error {
	for {
		begin := time.Now()
		err := s.await(ctx, s.lockOf(name))
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && time.Since(begin) >= waitLimit/2: // probably still held; the clocks may differ in speed
		default:
			return fmt.Errorf("sqllease: wait for the end of session %q: %w", name, err)
		}
	}
}

// await waits for a lock, at most for waitLimit.
func (s *Sessions) await(ctx context.Context, lock any) error {
	if s.cfg.Dialect == MySQL {
		var ended, standby bool
		err := s.db.QueryRowContext(ctx, mysqlAwait, lock, lock).Scan(&ended, &standby)
		switch {
		case err != nil:
			return err
		case standby:
			return errStandby
		case !ended:
			return errStillHeld
		}
		return nil
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // it has changed nothing
	var limit, none string
	var standby bool
	if err := tx.QueryRowContext(ctx, limitWait).Scan(&limit, &none, &standby); err != nil {
		return err
	}
	if standby {
		return errStandby
	}
	_, err = tx.ExecContext(ctx, awaitLock, lock)
	return err
}

// lockOf returns the lock of a session: a number, or in MySQL a name of at most 64 characters. Two sessions with the same lock could
// not be held at the same time.
func (s *Sessions) lockOf(name string) any {
	sum := sha256.Sum256([]byte(name))
	if s.cfg.Dialect == MySQL {
		return fmt.Sprintf("sqllease %x", sum[:16])
	}
	return int64(binary.BigEndian.Uint64(sum[:]))
}
