package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Objects survive the process that wrote them.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	type App struct{ Replicas int }

	for range 2 { // as two processes, one after the other
		db, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Config{})
		check(err)
		apps, err := store.Open(db, "App", store.Config[App]{})
		check(err)
		app, err := apps.Create(ctx, store.Object[App]{Key: "shop", Value: App{Replicas: 3}})
		if err != nil {
			fmt.Println(err)
			app, err = apps.Get(ctx, "shop")
			check(err)
		}
		fmt.Println(app.Value.Replicas, "replicas, version", app.Version)
		check(db.Close())
	}
	// Output:
	// 3 replicas, version 1
	// store: create App "shop": object already exists
	// 3 replicas, version 1
}

// An object and a row of the user's own table are written together, or neither is.
func ExampleWithTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Config{})
	check(err)
	defer func() { check(db.Close()) }()
	type Tenant struct{ Plan string }
	tenants, err := store.Open(db, "Tenant", store.Config[Tenant]{})
	check(err)
	_, err = db.DB().ExecContext(ctx, "CREATE TABLE invoices (tenant TEXT, cents INTEGER)")
	check(err)

	signUp := func(name string, cents int) error {
		tx, err := db.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		if _, err := tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?, ?)", name, cents); err != nil {
			return err
		}
		if _, err := tenants.Create(sqlite.WithTx(ctx, tx), store.Object[Tenant]{Key: name, Value: Tenant{Plan: "small"}}); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(signUp("acme", 500))
	fmt.Println(signUp("acme", 700))
	var invoices, cents int
	check(db.DB().QueryRowContext(ctx, "SELECT count(*), sum(cents) FROM invoices").Scan(&invoices, &cents))
	fmt.Println(invoices, "invoice over", cents, "cents")
	// Output:
	// <nil>
	// store: create Tenant "acme": object already exists
	// 1 invoice over 500 cents
}
