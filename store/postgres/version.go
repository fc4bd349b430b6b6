package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/written"
)

// clockKind is the kind of the clock of all transactions of a server.
const clockKind = "postgres transaction"

// server identifies a server and its replicas: the system identifier, which initdb has drawn.
type server string

func (s server) clock() written.Clock { return written.Clock{Kind: clockKind, DB: s} }

func serverOf(ctx context.Context, from queryer) (s server, err error) {
	err = from.QueryRow(ctx, "SELECT system_identifier::text FROM pg_control_system()").Scan(&s)
	return s, err
}

// Clock says what the versions of t count. A controller asks for it, to know which of its caches show a write.
func (t *Table[T]) Clock() written.Clock { return t.server.clock() }

// VersionOf returns the version that the changes of tx get when it commits, in every [Table] of the server. It gives tx a
// number if it has none yet, as a first write does.
//
// Call it in each transaction of a reconcile that writes a table which the controller watches. Under the context of the
// reconcile, VersionOf tells the controller the version. The controller then does not reconcile the key again before its caches
// have seen tx, or 10 s have passed: see controller.Config.StaleReads. If tx is rolled back, the caches pass its version all the same.
func VersionOf(ctx context.Context, tx pgx.Tx) (informer.Version, error) {
	var text string
	var s server
	err := tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text, (SELECT system_identifier::text FROM pg_control_system())").Scan(&text, &s)
	if err != nil {
		return 0, failed(ctx, "read the version of a transaction", err)
	}
	xid, err := parseXID(text)
	if err != nil {
		return 0, failed(ctx, "read the version of a transaction", err)
	}
	v, clock := versionOf(xid), s.clock()
	written.Tell(ctx, clock.Kind, clock.DB, uint64(v))
	return v, nil
}
