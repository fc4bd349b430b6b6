package postgres

import (
	"context"

	"github.com/setpoint-go/setpoint/informer"
)

// Installed returns the version before the first change.
func (t *Table[T]) Installed(ctx context.Context) (v informer.Version, err error) {
	var last string
	var first string
	if err = t.pool.QueryRow(ctx, t.queries.horizon).Scan(&first, &last); err != nil {
		return 0, err
	}
	xid, err := parseXID(last)
	return versionOf(xid), err
}
