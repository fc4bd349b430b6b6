package sqllease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// sqliteBusy is SQLITE_BUSY: another connection has the lock of the file. Its variants are others, such as that a transaction has read
// the past, for which no wait helps.
const sqliteBusy = 5

// whileBusy calls f until it returns another error than that the file is locked. It waits here and not in SQLite, because a driver
// does not notice the end of ctx while SQLite waits. f does one statement, before which its connection holds no lock. On Postgres,
// whileBusy calls f once.
func (s *Store) whileBusy(ctx context.Context, f func() error) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		err := f()
		var e interface{ Code() int }
		if s.stmt.postgres || !errors.As(err, &e) || e.Code() != sqliteBusy {
			return err
		}
		if wait.Sleep(ctx, pause+rand.N(pause)) != nil { // two that wait in step would meet again and again
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
