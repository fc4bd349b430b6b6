package mysql

import "time"

// EditQueries replaces the queries of t.
func (t *Table[T]) EditQueries(edit func(query string) string) {
	q := &t.queries
	for _, query := range []*string{
		&q.list, &q.last, &q.lastUpTo, &q.status, &q.page, &q.changed, &q.spans, &q.base0, &q.gaps, &q.marks, &q.empty, &q.settle, &q.late, &q.recent,
	} {
		*query = edit(*query)
	}
}

// TrustTriggers makes t not look at the triggers.
func (t *Table[T]) TrustTriggers() { t.trust = true }

// SetGrace sets for how long nothing must be seen in a gap before it is settled.
func (t *Table[T]) SetGrace(d time.Duration) { t.grace = d }

// GraceTime is for how long nothing must be seen in a gap before it is settled.
const GraceTime = graceTime

// SetPatience sets how long a watch waits for a reply.
func (t *Table[T]) SetPatience(d time.Duration) { t.patience = d }
