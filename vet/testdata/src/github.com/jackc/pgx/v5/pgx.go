// Package pgx has the part of the real package that the tests of the analyzers use.
package pgx

import "context"

type Row interface{ Scan(dest ...any) error }

type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (int, error)
	QueryRow(ctx context.Context, sql string, args ...any) Row
	Commit(ctx context.Context) error
}

type Conn struct{}

func (c *Conn) Exec(ctx context.Context, sql string, args ...any) (int, error) { return 0, nil }
func (c *Conn) QueryRow(ctx context.Context, sql string, args ...any) Row      { return nil }
func (c *Conn) Begin(ctx context.Context) (Tx, error)                          { return nil, nil }
