package sqllease_test

import (
	"database/sql"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// On MySQL and MariaDB, the sessions have a pool of their own, without a readTimeout.
func Example_mySQL() {
	db := new(sql.DB)     // sql.Open("mysql", "app@tcp(db:3306)/shop?interpolateParams=true&readTimeout=2s&innodb_lock_wait_timeout=2")
	direct := new(sql.DB) // sql.Open("mysql", "app@tcp(db:3306)/shop")
	leases, err := sqllease.New(db, sqllease.Config{Dialect: sqllease.MySQL})
	if err != nil {
		fmt.Println(err)
		return
	}
	sessions, err := sqllease.NewSessions(direct, sqllease.SessionsConfig{Dialect: sqllease.MySQL})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = leaderelect.Config{
		Store: leases, Key: "shop-controller",
		Sessions: sessions,
		Fenced:   true, // every transaction of the work begins with leases.Guard
	}
	fmt.Println(leases.DDL())
	// Output:
	// CREATE TABLE IF NOT EXISTS `leases` (
	// 	name    varbinary(2000) NOT NULL PRIMARY KEY,
	// 	term    bigint          NOT NULL,
	// 	version varbinary(255)  NOT NULL,
	// 	value   longblob        NOT NULL,
	// 	UNIQUE (name, term)
	// ) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
}
