package sqllease_test

import (
	"database/sql"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// Sessions use a pool of their own, without a pooler in transaction mode.
func ExampleSessions() {
	var leases *sqllease.Store // sqllease.New(pooled, ...)
	direct := new(sql.DB)      // sql.Open("pgx", "postgres://...")
	sessions, err := sqllease.NewSessions(direct, sqllease.SessionsConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := leaderelect.Config{
		Store: leases, Key: "shop-controller",
		Sessions: sessions,
		Fenced:   true, // every transaction of the work begins with leases.Guard
	}
	fmt.Println("early takeover:", cfg.Sessions != nil && cfg.Fenced)
	// Output:
	// early takeover: true
}
