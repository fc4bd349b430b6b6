package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// patience is how long a call waits for a lock of a file that others hold.
const patience = 10 * time.Second

// errReplaced says that the name of a file leads to another one.
var errReplaced = errors.New("the file was replaced by another one")

// tableFile opens connections to a file, through the driver of the user's pool. A second SQLite in the same process would be dangerous: when
// it closes the file, the locks of the first one end.
type tableFile struct {
	driver driver.Driver
	path   string
}

// fileOf returns the main database of a pool.
func fileOf(ctx context.Context, db *sql.DB) (f tableFile, err error) {
	f.driver = db.Driver()
	err = db.QueryRowContext(ctx, `SELECT coalesce(file, '') FROM pragma_database_list WHERE name = 'main'`).Scan(&f.path)
	if err == nil && f.path == "" {
		err = errors.New("the database is in memory, must be a file")
	}
	return f, err
}

// Connect implements [driver.Connector].
func (f tableFile) Connect(ctx context.Context) (driver.Conn, error) {
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(f.path), RawQuery: "mode=rw"} // creates no file, and reads one that is read-only
	if d, ok := f.driver.(driver.DriverContext); ok {
		connector, err := d.OpenConnector(uri.String())
		if err != nil {
			return nil, err
		}
		return connector.Connect(ctx)
	}
	return f.driver.Open(uri.String())
}

// Driver implements [driver.Connector].
func (f tableFile) Driver() driver.Driver { return f.driver }

// tableConn is a connection of a list or of a watch. One goroutine at a time uses it.
type tableConn struct {
	*sql.Conn
	pool  *sql.DB // only of this connection
	file  tableFile
	is    os.FileInfo          // the file that is open
	texts map[string]*sql.Stmt // prepared
}

// open opens a connection. The caller closes it.
func (f tableFile) open(ctx context.Context) (c *tableConn, err error) {
	for range 3 { // a file that is replaced in between is opened again
		before, err := os.Stat(f.path)
		if err != nil {
			return nil, err
		}
		c := &tableConn{pool: sql.OpenDB(f), file: f, is: before, texts: map[string]*sql.Stmt{}}
		c.pool.SetMaxOpenConns(1)
		if c.Conn, err = c.pool.Conn(ctx); err == nil {
			_, err = c.ExecContext(ctx, "PRAGMA busy_timeout = 0") // whileBusy waits, because that of SQLite does not end with ctx
		}
		if err == nil {
			err = c.replaced()
		}
		if err == nil {
			return c, nil
		}
		err = errors.Join(err, c.close())
		if !errors.Is(err, errReplaced) {
			return nil, err
		}
	}
	return nil, errReplaced
}

// replaced returns an error if the name of the file now leads to another one. The connection would go on with the deleted file.
func (c *tableConn) replaced() error {
	now, err := os.Stat(c.file.path)
	if err == nil && !os.SameFile(c.is, now) {
		err = errReplaced
	}
	return err
}

// close closes the connection, and with it a transaction that is open.
func (c *tableConn) close() error {
	var err error
	for _, s := range c.texts {
		err = errors.Join(err, s.Close())
	}
	if c.Conn != nil {
		err = errors.Join(err, c.Conn.Close())
	}
	return errors.Join(err, c.pool.Close())
}

// prepared returns the prepared statement of a text.
func (c *tableConn) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if s := c.texts[text]; s != nil {
		return s, nil
	}
	s, err := c.PrepareContext(ctx, text)
	if err == nil {
		c.texts[text] = s
	}
	return s, err
}

// read calls f in a transaction that only reads. All reads of f are of one snapshot, which its first one takes. If the file is locked then,
// read waits, and calls f again.
func (c *tableConn) read(ctx context.Context, f func() error) error {
	return whileBusy(ctx, patience, func() (err error) {
		if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
			return err
		}
		defer func() {
			_, end := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, end)
		}()
		return f()
	})
}

// The codes of SQLite for a file that is locked, and for one that must not be written.
const (
	codeBusy     = 5
	codeReadOnly = 8
)

// isCode reports whether err is of SQLite and has one of some primary codes, or contains the text. Not every driver has a method Code.
func isCode(err error, code int, text string) bool {
	var e interface{ Code() int }
	if errors.As(err, &e) {
		return e.Code()&0xff == code
	}
	return err != nil && strings.Contains(err.Error(), text)
}

func isBusy(err error) bool { return isCode(err, codeBusy, "database is locked") }

// whileBusy calls f until it returns an error other than that the file is locked, or none, for at most a time. It waits here and not in
// SQLite, because the wait of SQLite does not end with ctx. Also, SQLite does not wait at all if it sees a possible deadlock.
func whileBusy(ctx context.Context, limit time.Duration, f func() error) error {
	backoff := wait.Backoff{Duration: 100 * time.Microsecond, Factor: 2, Jitter: 1, Cap: 5 * time.Millisecond}
	deadline := time.Now().Add(limit)
	busy := func(err error) bool { return isBusy(err) && !time.Now().After(deadline) }
	return retry.OnError(ctx, backoff, busy, func(context.Context) error { return f() })
}

// String returns the name of the file, for messages.
func (f tableFile) String() string { return fmt.Sprintf("%q", f.path) }
