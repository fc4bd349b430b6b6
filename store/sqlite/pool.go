package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// pool is a pool of connections, each of which parses the statements of the backend once. SQLite takes longer to parse most of them than to
// run them.
type pool struct {
	*sql.DB
	statements map[string]*sql.Stmt // by their text; not changed after prepare
}

// prepare makes later calls use prepared statements for these texts.
func (p *pool) prepare(ctx context.Context, texts ...string) error {
	statements := make(map[string]*sql.Stmt, len(texts))
	for _, text := range texts {
		s, err := p.PrepareContext(ctx, text)
		if err != nil {
			for _, s := range statements {
				err = errors.Join(err, s.Close())
			}
			return err
		}
		statements[text] = s
	}
	p.statements = statements
	return nil
}

// QueryRowContext runs a query as that of [sql.DB] does.
func (p pool) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if s := p.statements[text]; s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return p.DB.QueryRowContext(ctx, text, args...)
}

// begin begins a transaction.
func (p pool) begin(ctx context.Context) (*transaction, error) {
	tx, err := p.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &transaction{tx, p.statements}, nil
}

// transaction is a transaction of a pool, or of the user, who has no prepared statements.
type transaction struct {
	*sql.Tx
	statements map[string]*sql.Stmt // by their text
}

// joined returns the transaction that the caller has put into ctx, or nil.
func joined(ctx context.Context) *transaction {
	if tx, ok := ctx.Value(txKey{}).(*sql.Tx); ok {
		return &transaction{Tx: tx}
	}
	return nil
}

// QueryRowContext runs a query as that of [sql.Tx] does.
func (t *transaction) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if s := t.statements[text]; s != nil {
		return t.StmtContext(ctx, s).QueryRowContext(ctx, args...)
	}
	return t.Tx.QueryRowContext(ctx, text, args...)
}

// QueryContext runs a query as that of [sql.Tx] does.
func (t *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if s := t.statements[text]; s != nil {
		return t.StmtContext(ctx, s).QueryContext(ctx, args...)
	}
	return t.Tx.QueryContext(ctx, text, args...)
}

// ExecContext runs a statement as that of [sql.Tx] does.
func (t *transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if s := t.statements[text]; s != nil {
		return t.StmtContext(ctx, s).ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, text, args...)
}
