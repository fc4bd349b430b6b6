package mysql_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql"
)

// Customer is a row of the table customers.
type Customer struct{ Name string }

// reportDelay logs a transaction that has delayed the caches for more than a minute.
func reportDelay(ctx context.Context, table *mysql.Table[Customer]) error {
	d, err := table.Delay(ctx)
	if err == nil && d.Behind > 0 && !d.Since.IsZero() && time.Since(d.Since) > time.Minute {
		slog.Warn("a transaction delays the caches of a table", "changes", d.Behind, "user", d.User, "since", d.Since, "thread", d.Thread)
	}
	return err
}

func ExampleTable_Delay() { _ = reportDelay }
