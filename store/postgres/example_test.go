package postgres_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/postgres"
)

type Tenant struct{ Plan string }

// A table of tenants, which other programs write, becomes a cache that follows it.
func ExampleNewTable() {
	type Tenant struct {
		ID   int64
		Plan string
	}
	run := func(ctx context.Context, pool *pgxpool.Pool) error {
		cfg := postgres.TableConfig{Table: "tenants"}
		if err := postgres.InstallTable(ctx, pool, cfg); err != nil {
			return err
		}
		table, err := postgres.NewTable(ctx, pool, pgx.RowToStructByName[Tenant], cfg)
		if err != nil {
			return err
		}
		tenants, err := informer.New(table, func(t Tenant) int64 { return t.ID }, informer.Config{})
		if err != nil {
			return err
		}
		return tenants.Run(ctx)
	}
	_ = run
}

// A program creates its schema when it is deployed, and opens it when it starts.
func ExampleOpen() {
	run := func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := postgres.Migrate(ctx, pool, postgres.Config{}); err != nil {
			return err
		}
		db, err := postgres.Open(ctx, pool, postgres.Config{})
		if err != nil {
			return err
		}
		tenants, err := store.Open(db, "Tenant", store.Config[Tenant]{})
		if err != nil {
			return err
		}
		_, err = tenants.Create(ctx, store.Object[Tenant]{Key: "acme", Value: Tenant{Plan: "small"}})
		return err
	}
	_ = run
}

// An object and a row of your own table are written together, or neither is.
func ExampleWithTx() {
	signUp := func(ctx context.Context, pool *pgxpool.Pool, tenants store.Store[Tenant], name string, cents int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO invoices VALUES ($1, $2)", name, cents); err != nil {
				return err
			}
			_, err := tenants.Create(postgres.WithTx(ctx, tx), store.Object[Tenant]{Key: name, Value: Tenant{Plan: "small"}})
			return err
		})
	}
	_ = signUp
}
