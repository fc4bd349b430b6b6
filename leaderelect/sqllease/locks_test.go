package sqllease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// locks is a server with advisory locks, and nothing else.
type locks struct {
	mu sync.Mutex
	// mu guards the following.
	sessions int64
	open     map[*lockSession]bool
	holder   map[any]*lockSession
	changed  chan struct{} // closed when a lock was let go
	standby  bool
	pooled   bool // a pooler in transaction mode: each statement meets another session
	waits    int
	limit    time.Duration // of a wait, on the clock of the client

	slow func(query string) error // called without mu; nil is nothing
}

// openLocks returns a server, and a pool of connections to it.
func openLocks(t testing.TB) (*locks, *sql.DB) {
	t.Helper()
	s := &locks{open: make(map[*lockSession]bool), holder: make(map[any]*lockSession), changed: make(chan struct{}), limit: time.Minute}
	db := sql.OpenDB(s)
	t.Cleanup(func() { _ = db.Close() })
	return s, db
}

// cut ends the sessions that hold locks, as when the process at the other end is killed.
func (s *locks) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.holder {
		session.dead = true
		s.endLocked(session)
	}
}

// endLocked releases everything that a session holds.
func (s *locks) endLocked(session *lockSession) {
	delete(s.open, session)
	for lock, holder := range s.holder {
		if holder == session {
			delete(s.holder, lock)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// counts returns how many sessions there are, how many locks are held, and how often one was waited for.
func (s *locks) counts() (open, held, waits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.holder), s.waits
}

// is changes the state of the server.
func (s *locks) is(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *locks) Driver() driver.Driver { return nil }

func (s *locks) Connect(context.Context) (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	session := &lockSession{locks: s, pid: s.sessions}
	s.open[session] = true
	return session, nil
}

// lockSession is a session. server.mu guards what changes.
type lockSession struct {
	*locks
	pid  int64
	dead bool
}

func (c *lockSession) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *lockSession) Begin() (driver.Tx, error)           { return c, nil }
func (c *lockSession) Commit() error                       { return nil }
func (c *lockSession) Rollback() error                     { return nil }

func (c *lockSession) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(c)
	return nil
}

// answer is the result of a statement with one row.
func (c *lockSession) answer(query string, args []driver.NamedValue) ([]driver.Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, driver.ErrBadConn
	}
	if c.pooled {
		c.sessions++
		c.pid = c.sessions
	}
	switch {
	case strings.Contains(query, "pg_try_advisory_lock"), strings.Contains(query, "get_lock(?, 0)"):
		lock := args[0].Value
		if name, ok := lock.(string); ok && len(name) > 64 {
			return nil, errors.New("incorrect user-level lock name")
		}
		free := c.holder[lock] == nil
		if free {
			c.holder[lock] = c
		}
		return []driver.Value{free, c.pid, c.standby}, nil
	case strings.Contains(query, "lock_timeout"):
		return []driver.Value{"1min", "0", c.standby}, nil
	default:
		return []driver.Value{c.pid}, nil
	}
}

func (c *lockSession) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.slow != nil {
		if err := c.slow(query); err != nil {
			return nil, err
		}
	}
	if strings.Contains(query, "get_lock(?, 60)") {
		err := c.wait(ctx, args[0].Value)
		if err != nil && !errors.Is(err, errLimit) {
			return nil, err
		}
		return &cursor{rows: [][]driver.Value{{err == nil, c.standby}}}, nil
	}
	row, err := c.answer(query, args)
	if err != nil {
		return nil, err
	}
	return &cursor{rows: [][]driver.Value{row}}, nil
}

// ExecContext waits for a lock, until the limit.
func (c *lockSession) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !strings.Contains(query, "pg_advisory_xact_lock_shared") {
		return nil, errors.ErrUnsupported
	}
	if err := c.wait(ctx, args[0].Value); err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), nil
}

var errLimit = errors.New("canceling statement due to lock timeout")

// wait waits until nobody holds a lock.
func (c *lockSession) wait(ctx context.Context, lock any) error {
	limit := time.NewTimer(c.limit)
	defer limit.Stop()
	c.mu.Lock()
	c.waits++
	for c.holder[lock] != nil {
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-limit.C:
			return errLimit
		case <-ctx.Done():
			return ctx.Err()
		}
		c.mu.Lock()
	}
	c.mu.Unlock()
	return nil
}
