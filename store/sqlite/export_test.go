package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
)

// Writer returns the pool of the connection that writes.
func (b *Backend) Writer() *sql.DB { return b.write.DB }

// Reader returns the pool of the connections that read.
func (b *Backend) Reader() *sql.DB { return b.read.DB }

// Statements returns the text of all statements.
func Statements() string { return fmt.Sprint(newTables("")) }

// CountShared counts the transactions that several writers share.
func (b *Backend) CountShared(n *atomic.Int32) {
	run := b.turns.Run
	b.turns.Run = func(ctx context.Context, tx *transaction, swaps []*swap) {
		if len(swaps) > 1 {
			n.Add(1)
		}
		run(ctx, tx, swaps)
	}
}

// EditQueries replaces the queries of t.
func (t *Table[T]) EditQueries(edit func(query string) string) {
	q := &t.queries
	for _, query := range []*string{&q.list, &q.state, &q.end, &q.page} {
		*query = edit(*query)
	}
}

// TrustTriggers makes t take the triggers of the file, if there are any, for those that it must have.
func (t *Table[T]) TrustTriggers() {
	t.triggers = func(f found) (all []trigger) {
		for name, text := range f.triggers {
			all = append(all, trigger{name, text})
		}
		return all
	}
}
