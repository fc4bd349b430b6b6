package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/internal/group"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Config is the configuration of a [Backend]. The zero value is ready for use.
type Config struct {
	// Schema is the schema that holds the tables. Postgres must accept the name, which has at most 63 bytes and is not "$user". Defaults to
	// "setpoint".
	Schema string

	// History is the number of changes, of all kinds, that the schema keeps for watches that resume. If processes differ, each trims to its
	// own number. Deletions are kept equally long. A watch that resumes later ends with backend.ErrExpired, and its informer lists again.
	// Defaults to 100,000.
	History int

	// Poll is how often a watch looks for changes without a notification. Defaults to 1 s.
	Poll time.Duration

	// Listen is the pool that provides the connection for notifications. Set it if the pool of Open goes through a pooler in transaction
	// mode. Defaults to the pool of Open.
	Listen *pgxpool.Pool

	_ [0]func()
}

func (c Config) withDefaults() Config {
	c.Schema = cmp.Or(c.Schema, "setpoint")
	c.History = cmp.Or(c.History, 100_000)
	c.Poll = cmp.Or(c.Poll, time.Second)
	return c
}

func (c Config) validate() error {
	var errs []error
	if len(c.Schema) > 63 {
		errs = append(errs, fmt.Errorf("Config.Schema has %d bytes, must not have more than 63", len(c.Schema)))
	}
	for _, r := range c.Schema {
		if r == 0 {
			errs = append(errs, fmt.Errorf("Config.Schema is %q, must not contain NUL", c.Schema))
		}
	}
	if c.Schema == "$user" { // as a search path
		errs = append(errs, errors.New(`Config.Schema is "$user", which Postgres takes for the name of the user`))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("Config.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("Config.Poll is %v, must not be negative", c.Poll))
	}
	return problems.Join(errs...)
}

// Backend is a [backend.Backend] in one schema of a Postgres database. All methods are safe for concurrent use.
type Backend struct {
	backend.Kinds
	cfg        Config
	pool       *pgxpool.Pool
	statements statements
	listener   listener
	writes     group.Commit[*pgxpool.Conn, *swap] // those outside a caller's transaction
	patience   time.Duration                      // how long a read of a watch, or of a page, may take
}

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.Versioner = (*Backend)(nil)
)

// Open returns the backend in a schema that [Migrate] has created. It returns an error if a field of cfg is invalid, or if the schema is
// missing, incomplete, or of another layout. It starts nothing: the connection for notifications is held only while there are watches. Open
// does not take over the pool. Close the pool after all calls have returned.
func Open(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Backend, error) {
	if pool == nil {
		panic("postgres: Open called with a nil pool")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	b := &Backend{cfg: cfg, pool: pool, statements: newStatements(cfg.Schema), patience: patience}
	b.listener = listener{pool: cmp.Or(cfg.Listen, pool), channel: b.statements.channel, retry: cfg.Poll, patience: patience}
	b.writes.Limit, b.writes.Patience, b.writes.Begin, b.writes.Run = 64, time.Second, pool.Acquire, b.commit
	if err := b.check(ctx); err != nil {
		return nil, fmt.Errorf("postgres: open schema %q: %w", cfg.Schema, err)
	}
	return b, nil
}

// Capabilities implements [backend.Backend].
func (b *Backend) Capabilities() backend.Capabilities { return backend.Capabilities{Joins: true} }

// writing returns the mode of all transactions of this package that write, whatever the defaults of the session are. Each statement sees
// what was committed before it, so a lock that an earlier statement has taken means something.
func writing() pgx.TxOptions { return pgx.TxOptions{IsoLevel: pgx.ReadCommitted} }

// listing returns the mode of all transactions of this package that read in several statements. All of them see one snapshot.
func listing() pgx.TxOptions {
	return pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
}

// patience limits one read of a watch, which reads a few hundred rows. If the server disappears without closing its connections, the read
// would otherwise last a quarter of an hour.
const patience = 30 * time.Second

// errNoAnswer is the cause of a read that has timed out.
var errNoAnswer = errors.New("the server has not answered in time")

// inTime calls a function that reads from the server through pool, under a context that ends after limit. If the function fails after that,
// inTime also closes the idle connections of the pool: if the server has disappeared, they are half-open too, and each of them would delay
// a later read as much.
func inTime(ctx context.Context, pool *pgxpool.Pool, limit time.Duration, read func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancel()
	err := read(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errNoAnswer) {
		pool.Reset()
	}
	return cause
}

// endRead ends a transaction that has only read. Its connection may be half-open by now, so limit applies here too.
func endRead(ctx context.Context, tx pgx.Tx, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	_ = tx.Rollback(ctx) // if it fails, the pool closes the connection, and the server rolls back
}

// txKey is the key of a context under which WithTx keeps the transaction.
type txKey struct{}

// WithTx returns a context under which writes, and reads of single objects, of a store in the same database are part of tx. They take
// effect when you commit tx. If the store refuses a write, with store.ErrConflict for example, tx remains usable. If the isolation level of
// tx is repeatable read or serializable, a write may fail with the error 40001 of the server. Then roll back and start over, as always at
// those levels. Watches and lists ignore tx.
//
//	tx, err := pool.Begin(ctx)
//	...
//	_, err = tx.Exec(ctx, "INSERT INTO orders ...")
//	_, err = apps.Create(postgres.WithTx(ctx, tx), app)
//	err = tx.Commit(ctx)
//
// From the first such write until the commit, all other writes of the schema wait. So make these writes last, and commit at once. Two
// transactions that write several objects cannot deadlock over the objects, because the first write of each takes the lock that all of them
// need.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// programLimit is the error code of the server for a value that is too large.
const programLimit = "54000"

// failed words the error of a call. If ctx has ended, the error wraps its cause.
func failed(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("postgres: %s: %w", doing, context.Cause(ctx))
	}
	if e := new(pgconn.PgError); errors.As(err, &e) && e.Code == programLimit {
		return fmt.Errorf("postgres: %s: %w: %w", doing, backend.ErrTooLarge, err)
	}
	return fmt.Errorf("postgres: %s: %w", doing, err)
}
