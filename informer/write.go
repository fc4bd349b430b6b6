package informer

import (
	"context"

	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// ReportWrite tells the controller whose reconcile has the context ctx that this reconcile has written to a source. The controller
// reconciles the key again only when its caches of that source show version, as after a write through a store.Store. So a reconcile never
// acts on a state from before its own last write. Call it after the write has been committed, or within its transaction if the version is
// final by then. Without such a controller, ReportWrite does nothing.
//
// kind names the source: it is the result of the method Kind() string of the source, which any [ListWatcher] may have. Sources with the same
// kind must have comparable versions. The stores and tables of this module report their writes themselves. The object of a write can be
// waited for, too, if it is a controller.Written of that kind.
func ReportWrite(ctx context.Context, kind string, version Version) {
	reconcile.ReportWrite(ctx, kind, nil, uint64(version))
}
