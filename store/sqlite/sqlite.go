package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/group"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Config is the configuration of a [Backend]. The zero value is ready for use.
type Config struct {
	// TablePrefix begins the names of the tables and indexes. It consists of lower-case letters, digits and underscores, and does
	// not begin with a digit. Defaults to "setpoint_".
	TablePrefix string

	// History is the number of changes, of all kinds, that the file keeps for watches that resume. If processes differ, each trims to its
	// own number. Defaults to 100,000.
	History int

	// Poll is how often a watch looks for changes of other processes, and of transactions that were joined by [WithTx].
	// Defaults to 20 ms.
	Poll time.Duration

	// BusyTimeout limits how long a write waits while other processes, or transactions of [Backend.DB], are writing. Defaults to 10 s.
	BusyTimeout time.Duration

	// Existing makes Open return an error if the file or its tables are missing, instead of creating them. Set it in programs
	// that only read: a mistyped path then leaves no file behind. The error wraps fs.ErrNotExist if the file is missing.
	Existing bool

	_ [0]func()
}

func (c Config) validate() error {
	var errs []error
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]*$`).MatchString(c.TablePrefix) {
		errs = append(errs, fmt.Errorf("Config.TablePrefix is %q, must consist of a-z, 0-9 and _, and not begin with a digit", c.TablePrefix))
	}
	if strings.HasPrefix(c.TablePrefix, "sqlite_") {
		errs = append(errs, fmt.Errorf("Config.TablePrefix is %q, must not begin with sqlite_", c.TablePrefix))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("Config.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("Config.Poll is %v, must not be negative", c.Poll))
	}
	if c.BusyTimeout < 0 {
		errs = append(errs, fmt.Errorf("Config.BusyTimeout is %v, must not be negative", c.BusyTimeout))
	}
	return problems.Join(errs...)
}

// Backend is a [backend.Backend] in one SQLite file. One file may have any number of Backends, in one process or several. All methods are
// safe for concurrent use.
type Backend struct {
	backend.Kinds
	cfg     Config
	tables  tables
	write   pool // one connection, which does not wait for other writers: begin does
	read    pool
	users   *sql.DB // the result of DB
	latest  follow.Latest
	written broadcast.Signal // by this Backend
	writers atomic.Int32     // calls of Transact outside a caller's transaction
	turns   group.Commit[*transaction, *swap]
}

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.Versioner = (*Backend)(nil)
)

// Open opens the file at path, and creates it and the tables if they are missing and [Config.Existing] is false. It returns an
// error if a field of cfg is invalid, if the file cannot be used, or if its tables have another layout.
// path is a file name, not a URI. A database in memory is refused: use store.NewMemory.
func Open(ctx context.Context, path string, cfg Config) (*Backend, error) {
	b, err := open(ctx, path, cfg)
	if err != nil {
		return nil, failed(ctx, fmt.Sprintf("open %q", path), err)
	}
	return b, nil
}

func open(ctx context.Context, path string, cfg Config) (*Backend, error) {
	cfg.TablePrefix = cmp.Or(cfg.TablePrefix, "setpoint_")
	cfg.History = cmp.Or(cfg.History, 100_000)
	cfg.Poll = cmp.Or(cfg.Poll, 20*time.Millisecond)
	cfg.BusyTimeout = cmp.Or(cfg.BusyTimeout, 10*time.Second)
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	switch {
	case path == "":
		return nil, errors.New("the path is empty")
	case path == ":memory:" || strings.HasPrefix(path, "file:"):
		return nil, errors.New("the path must be the name of a file; for a store in memory use store.NewMemory")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(abs)); err != nil {
		return nil, err // SQLite says only that it cannot open the file
	}
	b := &Backend{cfg: cfg, tables: newTables(cfg.TablePrefix)}
	if cfg.Existing {
		if err := b.checkExisting(ctx, abs); err != nil {
			return nil, err
		}
	}
	busy := "busy_timeout(" + strconv.FormatInt(cfg.BusyTimeout.Milliseconds(), 10) + ")"
	durable := []string{"journal_mode(WAL)", "synchronous(FULL)"}
	for _, p := range []struct {
		pool    **sql.DB
		options url.Values
	}{
		{&b.write.DB, url.Values{"_txlock": {"immediate"}, "_pragma": append(durable, "busy_timeout(0)")}},
		{&b.users, url.Values{"_txlock": {"immediate"}, "_pragma": append(durable, busy)}},
		{&b.read.DB, url.Values{"_pragma": {busy, "query_only(1)"}}},
	} {
		if *p.pool, err = openPool(abs, p.options); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	b.write.SetMaxOpenConns(1)
	b.turns.Limit, b.turns.Patience, b.turns.Begin, b.turns.Run = 64, time.Minute, b.begin, b.commit // one connection: turns cannot overlap
	// All watches read after each write, and a new connection reads the schema first.
	b.read.SetMaxIdleConns(64)
	b.read.SetConnMaxIdleTime(time.Minute)
	if err := b.whileBusy(ctx, func() error { return b.setUp(ctx) }); err != nil { // others may create the file now
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// openPool returns a pool of connections to the file at an absolute path. The path is passed as a URI, so it may contain any
// character.
func openPool(path string, options url.Values) (*sql.DB, error) {
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	return sql.Open("sqlite", uri.String())
}

// Close closes the connections to the file. A call in flight ends, with its result or an error. Watches and later calls return an error.
func (b *Backend) Close() (err error) {
	for _, pool := range []*sql.DB{b.write.DB, b.users, b.read.DB} {
		if pool != nil {
			err = errors.Join(err, pool.Close())
		}
	}
	return err
}

// DB returns a pool for tables of your own in the same file, and for transactions that [WithTx] joins. Its transactions begin with BEGIN
// IMMEDIATE. While one is open, every other write to the file waits, for at most [Config.BusyTimeout]. So while a goroutine has a
// transaction open, it must not make writes outside that transaction.
//
// A statement of this pool that waits, such as that of BeginTx, does not notice the end of its context, because SQLite itself
// waits. It returns after BusyTimeout at the latest. All methods of Backend notice it.
func (b *Backend) DB() *sql.DB { return b.users }

// Capabilities implements [backend.Backend].
func (b *Backend) Capabilities() backend.Capabilities { return backend.Capabilities{Joins: true} }

// txKey is the key of a context under which WithTx keeps the transaction.
type txKey struct{}

// WithTx returns a context under which writes, and reads of single objects, of a store on this file are part of tx. They take effect when
// you commit tx. If one of them returns an error, and the error is not a refusal by the store, such as store.ErrConflict, roll tx back.
// Watches and lists ignore tx.
//
// tx may be of [Backend.DB], or of another pool on the same file. In the latter case, begin tx with BEGIN IMMEDIATE (the option
// _txlock=immediate of the driver). Otherwise, a transaction that reads before it writes may fail.
func WithTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// failed words the error of a call. If ctx has ended, the error wraps its cause.
func failed(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("sqlite: %s: %w", doing, context.Cause(ctx))
	}
	if e := new(sqlitedriver.Error); errors.As(err, &e) && e.Code() == sqlite3.SQLITE_TOOBIG {
		return fmt.Errorf("sqlite: %s: %w: %w", doing, backend.ErrTooLarge, err)
	}
	return fmt.Errorf("sqlite: %s: %w", doing, err)
}
