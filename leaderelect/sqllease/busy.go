package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// Result codes of SQLite. SQLITE_BUSY, the lowest byte of all its variants, means that another connection has the lock of the file. No wait
// helps against SQLITE_BUSY_SNAPSHOT: the transaction has read the past.
const (
	sqliteBusy         = 5
	sqliteBusySnapshot = 517
)

// whileBusy calls f until it returns an error other than that another connection has a lock, or none. On Postgres, it calls f once. On
// SQLite, it waits here and not in SQLite, because a driver does not notice the end of ctx while SQLite waits. On MySQL, it repeats
// statements that the server has undone because of a deadlock or innodb_lock_wait_timeout. f does one statement, or begins a
// transaction and does one statement in it: before that, its connection holds no lock. If ctx has ended, the error wraps its cause,
// unless that is the answer of a store to another call.
func (s *Store) whileBusy(ctx context.Context, f func() error) error {
	if s.stmt.dialect == Postgres {
		return f()
	}
	backoff := wait.Backoff{Duration: 100 * time.Microsecond, Factor: 2, Jitter: 1, Cap: 5 * time.Millisecond}
	var last error
	err := retry.OnError(ctx, backoff, s.busy, func(context.Context) error {
		last = f()
		return last
	})
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(ended.Err(ctx, context.Cause(ctx), answers), last)
}

// busy reports whether err shows that another connection has a lock, and that the statement has changed nothing.
func (s *Store) busy(err error) bool {
	if s.stmt.dialect == MySQL {
		number := mysqlNumber(err)
		return number == mysqlDeadlock || number == mysqlLockWait
	}
	e, ok := errorWith[interface{ Code() int }](err)
	return ok && e.Code()&0xff == sqliteBusy && e.Code() != sqliteBusySnapshot
}

// answers are the errors with which a store of leases answers a call, or a database a statement.
var answers = []error{leaderelect.ErrNotFound, leaderelect.ErrConflict, sql.ErrNoRows}
