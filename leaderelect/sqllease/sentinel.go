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

// Sentinel is a leaderelect.Sentinel on Postgres: a mark is an advisory lock of a session, which the server lets go
// when the process at its other end is gone. The package documentation has what that needs: connections of its own, and
// no pooler in transaction mode.
//
// All methods may be called by many goroutines at once.
type Sentinel struct {
	db  *sql.DB
	cfg SentinelConfig
}

// SentinelConfig is what a [Sentinel] needs to know. The zero value is a good one.
type SentinelConfig struct {
	// CheckPeriod is the time from one look to the next whether the session that holds a mark is still there. Only the
	// process that holds it learns it so, to take another mark; others learn it from the server. Less than RetryPeriod, so
	// that a leader whose connections were all cut says so before it is missed. Defaults to 1s.
	CheckPeriod time.Duration

	_ [0]func()
}

// NewSentinel returns a sentinel that takes its connections from db, which stays open: two at a time for each elector. All
// electors of a lease must reach the same database of the same server. The error names each field of cfg that is out
// of its bounds. NewSentinel panics if db is nil.
func NewSentinel(db *sql.DB, cfg SentinelConfig) (*Sentinel, error) {
	if db == nil {
		panic("sqllease: NewSentinel: the database is nil")
	}
	cfg.CheckPeriod = cmp.Or(cfg.CheckPeriod, time.Second)
	if cfg.CheckPeriod < 0 {
		return nil, fmt.Errorf("sqllease: new sentinel: SentinelConfig.CheckPeriod is %s, must not be negative", cfg.CheckPeriod)
	}
	return &Sentinel{db: db, cfg: cfg}, nil
}

const (
	// The session is told from others by the number of its process, in case that somebody stands in between who changes it.
	holdMark = `SELECT pg_try_advisory_lock($1), pg_backend_pid(), pg_is_in_recovery()`
	session  = `SELECT pg_backend_pid()`

	// The lock is shared, so that all who wait get it at once, and let go by the end of the transaction.
	limitWait = `SELECT set_config('lock_timeout', '60s', true), set_config('statement_timeout', '0', true), pg_is_in_recovery()`
	awaitMark = `SELECT pg_advisory_xact_lock_shared($1)`
)

// waitLimit is the lock_timeout of a wait. A server does not notice that a client is gone whose session waits for a
// lock, so it is asked anew from time to time.
const waitLimit = time.Minute

// checkTimeout is how long a session may take to answer.
const checkTimeout = 5 * time.Second

var (
	errMarkTaken    = errors.New("another session has its lock")
	errStandby      = errors.New("the server is a standby, which has locks of its own")
	errOtherSession = errors.New("the session has changed: does a pooler stand in between?")
)

// Hold holds the mark in a session of its own, until ctx ends or the session does.
func (s *Sentinel) Hold(ctx context.Context, mark string, held func()) error {
	if err := s.hold(ctx, lockOf(mark), held); err != nil {
		return fmt.Errorf("sqllease: hold mark %q: %w", mark, err)
	}
	return nil
}

func (s *Sentinel) hold(ctx context.Context, lock int64, held func()) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	// The session ends here, and is not given back to the pool with its lock.
	defer func() {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	var taken, standby bool
	var pid int64
	if err := conn.QueryRowContext(ctx, holdMark, lock).Scan(&taken, &pid, &standby); err != nil {
		return err
	}
	if standby {
		return errStandby
	}
	if !taken {
		return errMarkTaken
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

// check returns nil if conn is still the session with the given number.
func check(ctx context.Context, conn *sql.Conn, pid int64) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var now int64
	if err := conn.QueryRowContext(ctx, session).Scan(&now); err != nil {
		return err
	}
	if now != pid {
		return errOtherSession
	}
	return nil
}

// Gone returns nil when no session holds the mark.
func (s *Sentinel) Gone(ctx context.Context, mark string) error {
	for {
		begin := time.Now()
		err := s.await(ctx, lockOf(mark))
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && time.Since(begin) >= waitLimit: // it is held, as far as is known
		default:
			return fmt.Errorf("sqllease: wait for the end of mark %q: %w", mark, err)
		}
	}
}

// await waits for a lock, for waitLimit at most.
func (s *Sentinel) await(ctx context.Context, lock int64) error {
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
	_, err = tx.ExecContext(ctx, awaitMark, lock)
	return err
}

// lockOf returns the advisory lock of a mark. If two marks had the same, one would not be held, or its end be told late.
func lockOf(mark string) int64 {
	sum := sha256.Sum256([]byte(mark))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
