package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/internal/rowscan"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// A change gets its number before its transaction commits. So a number that a snapshot of the log lacks, below one that it has, is a gap. It
// is one of these:
//
//   - open: the transaction has not ended. Its row is in the log, and a read that is not of a snapshot (READ UNCOMMITTED) sees it. No lock is
//     needed for that, so no writer waits.
//   - dead: the transaction was rolled back, or the server has left the number out. Nothing is there, and never will be.
//   - about to be written: the server has drawn the number, and not yet inserted the row. That takes microseconds within one statement, unless
//     the thread is suspended there, or waits for a lock on the end of the log that another program holds.
//
// No read tells the last two apart. So a gap in which nothing was seen for graceTime is settled, by a row in the table of gaps: readers pass
// it, each of them after it has read that row. If a change appears in a settled gap all the same, a reader finds it, and marks the log: then
// all watches list again. The gaps are looked at for lateTime, and no longer, since a thread that is suspended for longer is left to the
// comparison (see verification). So a change that is late costs a list, and none is lost. No writer waits, or fails, because of all that.
const (
	graceTime   = 200 * time.Millisecond
	graceProbes = 5
	lateTime    = time.Hour
)

// span is a range of numbers.
type span struct{ first, last int64 }

// spans are ranges of numbers that are settled, in order of their beginnings. The first may be that of all numbers up to one.
type spans []span

// missing returns the first number of a range that is in no span.
func (s spans) missing(first, last int64) (n int64, ok bool) {
	n = first
	for _, in := range s {
		if in.first <= n && n <= in.last {
			n = in.last + 1
		}
	}
	return n, n <= last
}

// sort sorts s.
func (s spans) sort() {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.first, b.first) })
}

// readSpans reads the spans that end after a number.
func readSpans(ctx context.Context, from rowscan.Queryer, query string, after int64) (spans, error) {
	s, err := rowscan.All(ctx, from, func(rows *sql.Rows, s *span) error { return rows.Scan(&s.first, &s.last) },
		queries{}.at(query, after, 0))
	spans(s).sort()
	return s, err
}

// gap is a gap in which nothing was seen.
type gap struct {
	span
	since  time.Time
	probes int
}

// settle looks at the gaps after a version, and settles those in which nothing was seen for long enough.
func (r *reading[T]) settle(ctx context.Context, after int64) error {
	now := time.Now()
	if now.Before(r.probeAt) {
		return nil
	}
	r.probeAt = now.Add(r.table.grace / graceProbes)
	if err := r.session.Dirty(ctx); err != nil {
		return err
	}
	empty, err := readSpans(ctx, r.session, r.table.queries.empty, after)
	if err != nil {
		return err
	}
	now = time.Now()
	before := r.gaps
	r.gaps = map[int64]gap{}
	var settled spans
	for _, s := range empty {
		n, missing := r.settled.missing(s.first, s.last)
		if !missing {
			continue
		}
		g := gap{span{n, s.last}, now, 0}
		if old, ok := before[n]; ok && old.last <= s.last { // otherwise a row has appeared in it
			g = old
		}
		if g.probes++; g.probes > graceProbes && now.Sub(g.since) >= r.table.grace {
			settled = append(settled, g.span)
		} else {
			r.gaps[n] = g
		}
	}
	if len(settled) == 0 {
		return nil
	}
	values := make([]string, len(settled))
	for i, s := range settled {
		values[i] = fmt.Sprintf("(%d, %d, UNIX_TIMESTAMP())", s.first, s.last)
	}
	err = r.session.Write(ctx, strings.ReplaceAll(r.table.queries.settle, listed, strings.Join(values, ", ")))
	if usertable.MustNot(err) {
		r.table.mayNotWrite(ctx, err)
		return nil
	}
	if err == nil {
		r.settled = append(r.settled, settled...)
		r.settled.sort()
	}
	return err
}

// mostRanges is how many ranges a statement has at most, for which the server needs memory.
const mostRanges = 200

// findLate looks for changes in gaps that were settled within a time, and marks the log. A transaction that has written into such a gap, and is
// still open, keeps the gap from being forgotten.
func (r *reading[T]) findLate(ctx context.Context, within time.Duration) error {
	q := r.table.queries
	all, err := readSpans(ctx, r.session, q.recent, int64(within/time.Second))
	if err != nil {
		return err
	}
	for part := range slices.Chunk(all, mostRanges) {
		ranges := make([]string, len(part))
		for i, s := range part {
			ranges[i] = fmt.Sprintf("setpoint_n BETWEEN %d AND %d", s.first, s.last)
		}
		look := strings.ReplaceAll(q.late, listed, strings.Join(ranges, " OR "))
		var late, open sql.NullInt64
		if err := r.session.QueryRowContext(ctx, look).Scan(&late); err != nil {
			return err
		}
		if late.Valid {
			r.table.cfg.Logger.WarnContext(ctx, "a change of a table was committed late, so its watches list again",
				"table", r.table.cfg.Table, "change", late.Int64)
			if err := r.mark(ctx, "a change was committed late"); err != nil {
				return err
			}
			// After the mark: if this fails, the next look marks again. The rest of the gap stays settled throughout.
			err := r.session.Write(ctx, q.at(q.split, late.Int64, 0))
			if err == nil {
				err = r.session.Write(ctx, q.at(q.unsettle, late.Int64, 0))
			}
			return err
		}
		if err := r.session.Dirty(ctx); err != nil {
			return err
		}
		if err := r.session.QueryRowContext(ctx, look).Scan(&open); err != nil {
			return err
		}
		if open.Valid {
			if err := r.session.Write(ctx, q.at(q.keep, open.Int64, 0)); err != nil && !usertable.MustNot(err) {
				return err
			}
		}
	}
	return nil
}

// mark makes all watches list again. If this one must not write, it ends alone.
func (r *reading[T]) mark(ctx context.Context, why string) error {
	err := r.session.Write(ctx, r.table.queries.mark)
	if usertable.MustNot(err) {
		r.table.mayNotWrite(ctx, err)
		return expired(why)
	}
	return err
}

// trim removes the changes that the history has no room for, and what the gaps below say.
func (r *reading[T]) trim(ctx context.Context) error {
	q, at := r.table.queries, numberOf(r.At)
	err := r.session.Write(ctx, q.at(q.base, at, 0))
	if err == nil {
		err = r.session.Write(ctx, q.at(q.forget, at, int64(lateTime/time.Second)))
	}
	var first, last sql.NullInt64
	if err == nil {
		err = r.session.QueryRowContext(ctx, q.ends).Scan(&first, &last)
	}
	end := min(at, last.Int64-int64(r.table.cfg.History)+1)
	begun := time.Now()
	for n := first.Int64; err == nil && n < end; n += trimBatch { // in pieces, so that each locks little, and below the end of the log
		if time.Since(begun) > r.table.patience/3 { // a long one: the rest later
			r.trimAt = time.Now()
			break
		}
		err = r.session.Write(ctx, q.at(q.trim, n, min(n+trimBatch, end)))
	}
	if usertable.MustNot(err) {
		r.table.mayNotWrite(ctx, err)
		return nil
	}
	return err
}

// trimBatch is how many numbers of the log are removed at once.
const trimBatch = 5000
