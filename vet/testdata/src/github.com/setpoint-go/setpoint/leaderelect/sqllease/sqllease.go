// Package sqllease has the part of the real package that the tests of the analyzers use.
package sqllease

import (
	"context"
	"database/sql"
)

type Store struct{}

func (s *Store) Guard(ctx context.Context, tx *sql.Tx) error                  { return nil }
func (s *Store) Transact(ctx context.Context, f func(tx *sql.Tx) error) error { return nil }
