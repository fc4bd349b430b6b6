package usertable

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// Comparison is a comparison of the table with what a watch has reported. A goroutine reads the table meanwhile.
type Comparison struct {
	report  *Report
	begun   time.Time
	touched map[uint64]bool // the keys that the watch has reported since the comparison began, which are left out
	stop    context.CancelFunc
	done    chan struct{}
	// The goroutine sets the following before it closes done.
	rows Hashes
	upTo informer.Version // the rows show no later change
	took time.Duration
	err  error
}

// Compare begins a comparison of report with the rows of a query. upTo returns the present version: the keys of later changes than those of
// the rows are reported before the comparison is done, and left out. End must be called.
func (r *Reader[T]) Compare(
	ctx context.Context, report *Report, db *sql.DB, patience time.Duration, query string, upTo func(context.Context, Session) (informer.Version, error),
) *Comparison {
	ctx, stop := context.WithCancel(ctx)
	c := &Comparison{report: report, begun: time.Now(), touched: map[uint64]bool{}, stop: stop, done: make(chan struct{})}
	report.comparison = c
	go func() { // reads the table, while the watch goes on; ends with it
		defer close(c.done)
		c.err = wait.Call(ctx, func(ctx context.Context) (err error) {
			s, err := Open(ctx, db, patience)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			err = s.Snapshot(ctx, func() error {
				c.rows = Hashes{}
				rows, err := s.QueryContext(ctx, query)
				if err != nil {
					return err
				}
				v := r.newValues()
				for rows.Next() {
					if err := rows.Scan(v.dest...); err != nil {
						return errors.Join(err, rows.Close())
					}
					c.rows[v.keyHash()] = v.hash()
				}
				return errors.Join(rows.Err(), rows.Close())
			})
			if err == nil {
				c.upTo, err = upTo(ctx, s)
			}
			return err
		})
		c.took = time.Since(c.begun)
	}()
	return c
}

// End stops the goroutine, and waits for it.
func (c *Comparison) End() {
	c.stop()
	<-c.done
	c.report.comparison = nil
}

// IsDone reports whether all rows were read, and the report includes them.
func (c *Comparison) IsDone() bool {
	select {
	case <-c.done:
		return c.err != nil || c.upTo <= c.report.At
	default:
		return false
	}
}

// Differences compares what was reported with the rows of the table. The comparison is done. It also returns how long the table was read.
func (c *Comparison) Differences() (d Differences, took time.Duration, err error) {
	for key, hash := range c.rows {
		switch before, ok := c.report.Rows[key]; {
		case c.touched[key]:
		case !ok:
			d.Added++
		case before != hash:
			d.Changed++
		}
	}
	for key := range c.report.Rows {
		if _, ok := c.rows[key]; !ok && !c.touched[key] {
			d.Gone++
		}
	}
	return d, c.took, c.err
}

// Differences are numbers of rows that have changed without the log.
type Differences struct{ Added, Changed, Gone int }
