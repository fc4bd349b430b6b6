package usertable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Session is a connection of its own, out of the user's pool. One goroutine at a time uses it. It does not return to the pool, because its
// settings are others. Statements without arguments use the text protocol, so that the server formats each value in one way.
type Session struct{ *sql.Conn }

// Patience is how long a watch waits for the reply to what it reads at once. After that, the server is taken for gone.
const Patience = 30 * time.Second

// Open takes a connection out of a pool. Each statement that reads takes a snapshot of its own, and locks nothing, whatever the defaults are.
func Open(ctx context.Context, db *sql.DB, patience time.Duration) (s Session, err error) {
	if s.Conn, err = db.Conn(ctx); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, text := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION autocommit = 1"} {
		if _, err := s.ExecContext(ctx, text); err != nil {
			return s, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close closes the connection, and with it a transaction that is open.
func (s Session) Close() error {
	err := s.Raw(func(any) error { return driver.ErrBadConn }) // so that the pool drops it
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		err = nil
	}
	if end := s.Conn.Close(); err == nil && !errors.Is(end, sql.ErrConnDone) {
		err = end
	}
	return err
}

// Snapshot calls f in a transaction that only reads. All reads of f are of one snapshot.
func (s Session) Snapshot(ctx context.Context, f func() error) (err error) {
	for _, text := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"} {
		if _, err := s.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	defer func() {
		if _, end := s.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err == nil {
			err = end
		}
	}()
	return f()
}

// Dirty makes the next statement see what transactions have written that are still open.
func (s Session) Dirty(ctx context.Context) error {
	_, err := s.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
	return err
}

// Write executes a statement that writes. The level is one at which the server accepts writes whatever its binary log is, and sessions may only
// read by default.
func (s Session) Write(ctx context.Context, text string) error {
	if _, err := s.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE"); err != nil {
		return err
	}
	_, err := s.ExecContext(ctx, text)
	return err
}

// The numbers of errors of a user who must not write, and of a server that must not be written.
const (
	deniedDatabase  = 1044
	deniedTable     = 1142
	deniedColumn    = 1143
	deniedOperation = 1227
	readOnlyServer  = 1290
	readOnlyMode    = 1836
)

// MustNot reports whether the server has refused a statement because of a privilege, or because it is read-only.
func MustNot(err error) bool {
	e := new(mysql.MySQLError)
	if !errors.As(err, &e) {
		return false
	}
	switch e.Number {
	case deniedDatabase, deniedTable, deniedColumn, deniedOperation, readOnlyServer, readOnlyMode:
		return true
	}
	return false
}
