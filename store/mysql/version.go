package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// A version is the number of a row of the log, and the random number of that row. So a version of a server that was restored, or has lost its
// last changes in a failover, is not one of the history that the log has now.
const randomBits = 20

func versionOf(n, r int64) informer.Version { return informer.Version(n<<randomBits | r) }

// numberOf returns the number of the row of a version.
func numberOf(v informer.Version) int64 { return int64(v >> randomBits) }

// randomOf returns the random number of the row of a version.
func randomOf(v informer.Version) int64 { return int64(v & (1<<randomBits - 1)) }

// clockKind is the kind of the clock of a table.
const clockKind = "mysql table"

// logID identifies a log.
type logID struct {
	host          string
	port          int
	database, log string
}

// Clock identifies the counter of the versions of t. A controller compares clocks to know which of its caches show a write.
func (t *Table[T]) Clock() reconcile.Clock { return reconcile.Clock{Kind: clockKind, DB: t.id} }

// LatestVersion implements [informer.Versioner]. It returns the version of the last committed change of the table. If a transaction that has
// written the table earlier is still open, watches reach that version after its end.
func (t *Table[T]) LatestVersion(ctx context.Context) (v informer.Version, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted, ReadOnly: true})
	if err == nil {
		v, err = t.last(ctx, tx)
		err = errors.Join(err, tx.Rollback())
	}
	if err != nil {
		return 0, failed(whole, fmt.Sprintf("read the latest version of table %q", t.cfg.Table), err)
	}
	return v, nil
}

// last returns the version of the last row of the log that a transaction sees.
func (t *Table[T]) last(ctx context.Context, tx *sql.Tx) (informer.Version, error) {
	var n, r int64
	err := tx.QueryRowContext(ctx, t.queries.last).Scan(&n, &r)
	if errors.Is(err, sql.ErrNoRows) {
		err = errEmptyLog
	}
	return versionOf(n, r), err
}

var errEmptyLog = errors.New("its log is empty: call mysql.InstallTable, or list the table")

// VersionOf returns a version that a cache of t has reached only if it shows tx. Call it after the last write of tx to the table. tx must be of
// the server and the database of t. The watches of t look for that version every few milliseconds, for up to a second.
//
// Call it in each transaction of a reconcile that writes a table that the controller watches. Under the context of the reconcile, VersionOf
// tells the controller the version. The controller then does not reconcile the key again until its caches have seen tx, or until 10 s have
// passed since the reconcile has ended: see controller.Config.StaleReads. If tx is rolled back, the caches pass its version with the next
// change of the table.
//
// VersionOf reads the last row of the log. In a transaction of the level SERIALIZABLE, that locks it: other writers of the table then wait for
// the end of tx.
func (t *Table[T]) VersionOf(ctx context.Context, tx *sql.Tx) (informer.Version, error) {
	v, err := t.last(ctx, tx)
	if err != nil {
		return 0, failed(ctx, "read the version of a transaction", err)
	}
	t.expected.Expect(v)
	reconcile.ReportWrite(ctx, clockKind, t.id, uint64(v))
	return v, nil
}

// Wake makes the watches of t look for changes now. Call it after a commit of your process, if [TableConfig.Poll] is too long to wait.
func (t *Table[T]) Wake() { t.expected.Signal.Wake() }
