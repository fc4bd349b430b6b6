package mysql

import (
	"context"
	"sync/atomic"
	"time"
)

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

// SetPatience limits the reads of watches, and of pages of lists.
func (b *Backend) SetPatience(d time.Duration) { b.patience = d }

// CountShared makes Shared count the transactions that several writes share.
func (b *Backend) CountShared() (shared *atomic.Int32) {
	shared = new(atomic.Int32)
	run := b.writes.Run
	b.writes.Run = func(ctx context.Context, t turn, swaps []*swap) {
		if len(swaps) > 1 {
			shared.Add(1)
		}
		run(ctx, t, swaps)
	}
	return shared
}

// EditStatements replaces statements of b.
func (b *Backend) EditStatements(edit func(text string) string) {
	t := &b.tables
	for _, text := range []*string{&t.lock, &t.changes, &t.present, &t.apply, &t.recordTerms, &t.tombstones, &t.forget, &t.advance} {
		*text = edit(*text)
	}
}

// BeforeCommit calls f before each commit.
func (b *Backend) BeforeCommit(f func()) { b.committing = f }
