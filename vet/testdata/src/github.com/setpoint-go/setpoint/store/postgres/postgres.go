// Package postgres has the part of the real package that the tests of the analyzers use.
package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

func Guard(ctx context.Context, tx pgx.Tx, leases *sqllease.Store) error { return nil }
