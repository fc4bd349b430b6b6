package sqllease_test

import (
	"database/sql"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// A sentinel has connections of its own, that no pooler in transaction mode is on.
func ExampleSentinel() {
	var leases *sqllease.Store // sqllease.New(pooled, ...)
	direct := new(sql.DB)      // sql.Open("pgx", "postgres://...")
	sentinel, err := sqllease.NewSentinel(direct, sqllease.SentinelConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := leaderelect.Config{
		Store: leases, Key: "shop-controller",
		Sentinel:   sentinel,
		FencedWork: true, // every transaction of the work begins with leases.Guard
	}
	fmt.Println("early takeover:", cfg.Sentinel != nil && cfg.FencedWork)
	// Output:
	// early takeover: true
}
