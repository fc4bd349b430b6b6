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

// whileBusy calls f until it returns an error other than that the file is locked, or none. It waits here and not in SQLite, because a
// driver does not notice the end of ctx while SQLite waits. f does one statement, before which its connection holds no lock. On
// Postgres, whileBusy calls f once. If ctx has ended, the error wraps its cause, unless that is the answer of a store to another call.
func (s *Store) whileBusy(ctx context.Context, f func() error) error {
	if s.stmt.postgres {
		return f()
	}
	backoff := wait.Backoff{Duration: 100 * time.Microsecond, Factor: 2, Jitter: 1, Cap: 5 * time.Millisecond}
	busy := func(err error) bool {
		var e interface{ Code() int }
		return errors.As(err, &e) && e.Code()&0xff == sqliteBusy && e.Code() != sqliteBusySnapshot
	}
	var last error
	err := retry.OnError(ctx, backoff, busy, func(context.Context) error {
		last = f()
		return last
	})
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(ended.Err(ctx, context.Cause(ctx), answers), last)
}

// answers are the errors with which a store of leases answers a call, or a database a statement.
var answers = []error{leaderelect.ErrNotFound, leaderelect.ErrConflict, sql.ErrNoRows}
