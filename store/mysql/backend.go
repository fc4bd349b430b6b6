package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/group"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// Config is the configuration of a [Backend]. The zero value is ready for use.
type Config struct {
	// TablePrefix begins the names of the tables, which are in the default database of the pool. It consists of lower-case letters, digits and
	// underscores, does not begin with a digit, and has at most 57 characters. Defaults to "setpoint_".
	TablePrefix string

	// History is the number of changes, of all kinds, that the tables keep for watches that resume. They may hold up to 64 more for a while. If
	// processes differ, each trims to its own number. Deletions are kept equally long. A watch that resumes later ends with backend.ErrExpired,
	// and its informer lists again. Defaults to 100,000.
	History int

	// Poll is how often a watch looks for changes of other processes, and of transactions that were joined by [WithTx]. Defaults to 20 ms.
	Poll time.Duration

	_ [0]func()
}

func (c Config) withDefaults() Config {
	c.TablePrefix = cmp.Or(c.TablePrefix, "setpoint_")
	c.History = cmp.Or(c.History, 100_000)
	c.Poll = cmp.Or(c.Poll, 20*time.Millisecond)
	return c
}

func (c Config) validate() error {
	var errs []error
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]*$`).MatchString(c.TablePrefix) {
		errs = append(errs, fmt.Errorf("Config.TablePrefix is %q, must consist of a-z, 0-9 and _, and not begin with a digit", c.TablePrefix))
	}
	if most := usertable.MaxName - len("objects"); len(c.TablePrefix) > most {
		errs = append(errs, fmt.Errorf("Config.TablePrefix has %d characters, must not have more than %d", len(c.TablePrefix), most))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("Config.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("Config.Poll is %v, must not be negative", c.Poll))
	}
	return problems.Join(errs...)
}

// Backend is a [backend.Backend] in tables of a MariaDB or MySQL database. All methods are safe for concurrent use.
type Backend struct {
	backend.Kinds
	cfg      Config
	db       *sql.DB
	tables   tables
	maxBytes int
	latest   follow.Latest
	written  broadcast.Signal // by this Backend
	writes   group.Commit[turn, *swap]

	// Tests replace the following.
	patience   time.Duration // how long a read of a watch, or of a page, may take
	committing func()        // called before each commit, if it is set
}

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.Versioner = (*Backend)(nil)
)

// Open returns the backend in tables that [Migrate] has created. db is a pool of the driver github.com/go-sql-driver/mysql, whose default
// database has the tables. Open returns an error if a field of cfg is invalid, if the tables are missing, incomplete, or of another layout, or if
// the sessions of the pool have autocommit off, or the isolation level READ UNCOMMITTED. It starts nothing, and does not take over the pool.
// Close the pool after all calls have returned.
func Open(ctx context.Context, db *sql.DB, cfg Config) (*Backend, error) {
	if db == nil {
		panic("mysql: Open called with a nil pool")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("mysql: open: %w", err)
	}
	b := &Backend{cfg: cfg, db: db, tables: newTables(cfg.TablePrefix), patience: usertable.Patience}
	b.writes.Limit, b.writes.Patience, b.writes.Begin, b.writes.Run = 64, time.Second, b.begin, b.commit
	if err := b.check(ctx); err != nil {
		return nil, failed(ctx, fmt.Sprintf("open tables %q", cfg.TablePrefix), err)
	}
	return b, nil
}

// Capabilities implements [backend.Backend]. A record may be about half as large as max_allowed_packet of the server.
func (b *Backend) Capabilities() backend.Capabilities {
	return backend.Capabilities{Joins: true, MaxBytes: b.maxBytes}
}

// txKey is the key of a context under which WithTx keeps the transaction.
type txKey struct{}

// WithTx returns a context under which writes, and reads of single objects, of a store in the same database are part of tx. They take
// effect when you commit tx. If the store refuses a write, with store.ErrConflict for example, tx remains usable. After any other error, roll tx
// back: the server may have ended it, and what is executed next would be on its own. If the number of the error is 1213, a deadlock, start over.
// A write sees the present state, whatever the isolation level of tx is. Watches and lists ignore tx.
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	_, err = tx.ExecContext(ctx, "INSERT INTO orders ...")
//	_, err = apps.Create(mysql.WithTx(ctx, tx), app)
//	err = tx.Commit()
//
// From the first such write until the commit, all other writes of the tables wait. So make these writes last, and commit at once. Two
// transactions that write several objects cannot deadlock over the objects, because the first write of each takes the lock that all of them
// need.
//
// If the transaction must be that of the leader, use the one of sqllease.Store.Transact.
func WithTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// joined returns the transaction that the caller has put into ctx, or nil.
func joined(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}

// The numbers of errors of the server that say what to do next.
const (
	lockWait       = 1205 // innodb_lock_wait_timeout: the statement is undone
	deadlock       = 1213 // the transaction is undone
	packetTooLarge = 1153 // max_allowed_packet
	rowTooLarge    = 1118 // a tenth of the redo log
)

// isNumber reports whether err is an error of the server with one of these numbers.
func isNumber(err error, numbers ...uint16) bool {
	e := new(mysql.MySQLError)
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains(numbers, e.Number)
}

// failedCall words the error of a call of a Backend.
func failedCall(ctx context.Context, doing string, err error) error {
	if errors.Is(err, mysql.ErrPktTooLarge) || isNumber(err, packetTooLarge, rowTooLarge) {
		err = fmt.Errorf("%w: %w", backend.ErrTooLarge, err)
	}
	return failed(ctx, doing, err)
}

// errNoAnswer is the cause of a read that has timed out.
var errNoAnswer = errors.New("the server has not answered in time")

// inTime calls a function that reads from the server, under a context that ends after limit. If the server disappears without closing its
// connections, the read would otherwise last a quarter of an hour.
func inTime(ctx context.Context, limit time.Duration, read func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancel()
	err := read(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// bytesSQL returns bytes as an SQL literal. The statements of a Backend have no parameters, because a statement with parameters takes two round
// trips unless the data source name says interpolateParams. A literal in hexadecimal means the same in every sql_mode and character set.
func bytesSQL[S string | []byte](s S) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.Grow(len(s)*2 + 3)
	b.WriteString("x'")
	for i := range len(s) {
		b.WriteByte(digits[s[i]>>4])
		b.WriteByte(digits[s[i]&0xf])
	}
	b.WriteByte('\'')
	return b.String()
}
