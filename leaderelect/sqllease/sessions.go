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
)

// Sessions implements leaderelect.Sessions on Postgres: early takeovers.
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
// A session is an advisory lock of a connection (pg_try_advisory_lock of a random 64-bit number). When the process ends,
// the operating system closes its connections, and the server releases the lock. A follower that waits for the lock then
// gets it.
//
//   - Each elector permanently uses two connections: one holds its session, one waits for the end of the leader's
//     session. A pool with a limit needs two more connections per elector, or renewals never get one. Alternatively, give
//     the sessions a pool of their own.
//   - A pooler such as PgBouncer works in session mode only. Avoid it if you can: it may keep the connection of a client
//     that has ended. In transaction mode, a session is lost at the first check.
//   - All electors must reach the same database of the same primary, because advisory locks belong to one database. A
//     standby is refused.
//   - If a machine disappears without closing its connections, its session lasts until TCP keepalives end it. A suspended
//     process keeps its session. In both cases followers wait for the lease.
//   - A server whose idle_session_timeout is shorter than CheckPeriod ends sessions. A restart ends all of them. Leaders
//     notice after CheckPeriod, and followers ask again after RetryPeriod. So a leader that has renewed by then stays.
//   - A takeover waits for guarded transactions of the old leader. They end with its connections.
//
// All methods may be called concurrently.
type Sessions struct {
	db  *sql.DB
	cfg SessionsConfig
}

// SessionsConfig configures [Sessions]. The zero value is ready for use.
type SessionsConfig struct {
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
	if cfg.CheckPeriod < 0 {
		return nil, fmt.Errorf("sqllease: new sessions: SessionsConfig.CheckPeriod is %s, must not be negative", cfg.CheckPeriod)
	}
	return &Sessions{db: db, cfg: cfg}, nil
}

const (
	// A pooler may change the connection to the server. The process ID of the server shows that.
	holdLock   = `SELECT pg_try_advisory_lock($1), pg_backend_pid(), pg_is_in_recovery()`
	backendPID = `SELECT pg_backend_pid()`

	// The lock is shared, so that all waiters get it at once, and it is released by the end of the transaction.
	limitWait = `SELECT set_config('lock_timeout', '60s', true), set_config('statement_timeout', '0', true), pg_is_in_recovery()`
	awaitLock = `SELECT pg_advisory_xact_lock_shared($1)`
)

// waitLimit is the lock_timeout of a wait. While a connection waits for a lock, the server does not notice that its
// client has ended. So the wait is restarted regularly.
const waitLimit = time.Minute

// checkTimeout is how long a connection may take to answer.
const checkTimeout = 5 * time.Second

var (
	errTaken           = errors.New("another connection has its lock")
	errStandby         = errors.New("the server is a standby, which has locks of its own")
	errOtherConnection = errors.New("the server process has changed: is a pooler in between?")
)

// Hold holds the session on a separate connection, until ctx ends or the connection is lost.
func (s *Sessions) Hold(ctx context.Context, name string, held func()) error {
	if err := s.hold(ctx, lockOf(name), held); err != nil {
		return fmt.Errorf("sqllease: hold session %q: %w", name, err)
	}
	return nil
}

func (s *Sessions) hold(ctx context.Context, lock int64, held func()) error {
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
	if err := conn.QueryRowContext(ctx, holdLock, lock).Scan(&taken, &pid, &standby); err != nil {
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
		if err := check(ctx, conn, pid); err != nil {
			return err
		}
	}
}

// check returns nil if conn still reaches the server process with the given ID.
func check(ctx context.Context, conn *sql.Conn, pid int64) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var now int64
	if err := conn.QueryRowContext(ctx, backendPID).Scan(&now); err != nil {
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
		err := s.await(ctx, lockOf(name))
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
func (s *Sessions) await(ctx context.Context, lock int64) error {
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

// lockOf returns the advisory lock of a session. Two sessions with the same lock could not be held at the same time.
func lockOf(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
