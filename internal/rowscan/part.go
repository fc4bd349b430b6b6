package rowscan

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Part is a part of the columns of a row of package database/sql. It may be scanned several times, while Rows is at that row.
type Part struct {
	Rows *sql.Rows
	Skip int         // columns before the part
	N    int         // columns of the part
	Key  map[int]int // if set, only these columns of the part have values: those of other columns of the row

	dest []any
}

// Scan copies the columns of the part into dest. It ignores a column whose destination is nil.
func (p *Part) Scan(dest ...any) error {
	if len(dest) != p.N {
		return fmt.Errorf("the row has %d columns, %d are scanned", p.N, len(dest))
	}
	if p.dest == nil {
		p.dest = make([]any, p.Skip+p.N)
	}
	for i := range p.dest {
		p.dest[i] = Ignored{}
	}
	for i, d := range dest {
		if d == nil {
			continue
		}
		if p.Key == nil {
			p.dest[p.Skip+i] = d
		} else if from, ok := p.Key[i]; ok {
			p.dest[from] = d
		}
	}
	return p.Rows.Scan(p.dest...)
}

// Ignored is the destination of a column that is not wanted.
type Ignored struct{}

// Scan implements [sql.Scanner].
func (Ignored) Scan(any) error { return nil }

// Queryer runs queries: a pool, a connection, or a transaction.
type Queryer interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// All returns the rows of a query.
func All[T any](ctx context.Context, from Queryer, scan func(*sql.Rows, *T) error, text string, args ...any) (list []T, err error) {
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var item T
		if err := scan(rows, &item); err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, rows.Err()
}
