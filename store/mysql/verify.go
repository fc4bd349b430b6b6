package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// verify begins a comparison, or ends one that has read all rows and to which the watch has come.
func (r *reading[T]) verify(ctx context.Context) error {
	t := r.table
	if r.comparing == nil {
		switch {
		case time.Now().Before(r.verifyAt):
		case r.Rows == nil:
			return expired("nobody knows what was reported before the watch began, so a list compares")
		default:
			r.comparing = t.reader.Compare(ctx, &r.Report, t.db, t.patience, t.queries.list, func(ctx context.Context, s usertable.Session) (informer.Version, error) {
				var first, last sql.NullInt64
				err := s.QueryRowContext(ctx, t.queries.ends).Scan(&first, &last)
				return versionOf(last.Int64, 0), err
			})
		}
		return nil
	}
	if !r.comparing.IsDone() {
		return nil
	}
	d, _, err := r.comparing.Differences()
	r.comparing.End()
	r.comparing = nil
	r.verifyAt = time.Now().Add(t.cfg.Verify)
	if err != nil || d == (usertable.Differences{}) {
		return err
	}
	t.cfg.Logger.WarnContext(ctx, "a table has changed without its triggers, so its watches list again",
		"table", t.cfg.Table, "added", d.Added, "changed", d.Changed, "gone", d.Gone)
	r.verifyAt = time.Now().Add(min(t.cfg.Verify, markPatience)) // the mark ends the watch before
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	return r.mark(ctx, "the table has changed without its triggers")
}

// markPatience is how soon a watch compares again that was not ended by its mark, because a transaction holds it up.
const markPatience = time.Minute
