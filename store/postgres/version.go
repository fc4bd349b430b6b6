package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// clockKind is the kind of the clock of all tables with one log.
const clockKind = "postgres transaction"

// logID identifies a change log, also on the replicas of its server.
type logID struct {
	system   string // the system identifier of the server, which initdb generated
	database string
	schema   string
}

func (c TableConfig) logID(ctx context.Context, from queryer) (id logID, err error) {
	id.schema = c.Schema
	err = from.QueryRow(ctx, "SELECT system_identifier::text, current_database() FROM pg_control_system()").Scan(&id.system, &id.database)
	return id, err
}

// Clock identifies the counter of the versions of t. A controller compares clocks to know which of its caches show a write.
func (t *Table[T]) Clock() reconcile.Clock { return reconcile.Clock{Kind: clockKind, DB: t.log} }

// VersionOf returns the version that the changes of tx get when it commits, in every [Table] with the same log. If tx has no number yet,
// VersionOf assigns one, as a first write does. The role of tx needs USAGE on the schema of the log, and no other privilege.
//
// Call it in each transaction of a reconcile that writes a table that the controller watches. Under the context of the reconcile, VersionOf
// tells the controller the version. The controller then does not reconcile the key again until its caches have seen tx, or until 10 s have
// passed since the reconcile has ended: see controller.Config.StaleReads. If tx is rolled back, the caches pass its version anyway.
func (t *Table[T]) VersionOf(ctx context.Context, tx pgx.Tx) (informer.Version, error) {
	var text string
	var m moment
	err := tx.QueryRow(ctx, t.queries.versionOf).Scan(&text, &m.base)
	xid := uint64(0)
	if err == nil {
		xid, err = parseXID(text)
	}
	if err != nil {
		return 0, failed(ctx, "read the version of a transaction", err)
	}
	v := m.versionOf(xid)
	reconcile.ReportWrite(ctx, clockKind, t.log, uint64(v))
	return v, nil
}
