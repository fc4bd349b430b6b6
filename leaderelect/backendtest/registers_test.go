//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// fenced is a register in the backend of a lease, which refuses leaders of the past.
type fenced interface {
	// swap replaces the value and returns the one before, or an error that wraps errRefused if the term is over. It is that
	// of the leadership of ctx, if ctx has one: a request that is late has none. After any other error it may or may not
	// have happened.
	swap(ctx context.Context, term uint64, value string) (old string, err error)
}

var errRefused = errors.New("refused")

// open opens the lease store and the register of a node.
func (s nodeSpec) open() (leaderelect.LeaseStore, fenced, error) {
	switch s.Backend {
	case "postgres":
		db, err := sql.Open("pgx", "postgres://postgres@"+s.Addr+"/postgres?sslmode=disable")
		if err != nil {
			return nil, nil, err
		}
		return sqlNode(db, sqllease.Postgres)
	case "mariadb":
		// The driver waits in a commit or a rollback until the network is back, so a read has a limit below StepDownTimeout.
		db, err := newMariaDB("root", s.Addr, "test", fmt.Sprintf("%s&readTimeout=%s", recommended, s.Lease/5))
		if err != nil {
			return nil, nil, err
		}
		return sqlNode(db, sqllease.MySQL)
	case "sqlite":
		db, err := newSQLite(s.Addr, "wal", s.Lease/5) // less than StepDownTimeout
		if err != nil {
			return nil, nil, err
		}
		return sqlNode(db, sqllease.SQLite)
	case "redis":
		leases := redisLeases(newRedis(s.Addr, -1), "{leases}")
		return leases, redisRegister{leases}, nil
	case "file":
		leases, err := filelease.New(s.Addr)
		return leases, leaseRegister{leases}, err
	default:
		return nil, nil, fmt.Errorf("no such backend: %q", s.Backend)
	}
}

// sessions returns sessions on connections of their own.
func (s nodeSpec) sessions() (leaderelect.Sessions, error) {
	if s.Backend == "mariadb" {
		db, err := newMariaDB("root", s.Addr, "", "")
		if err != nil {
			return nil, err
		}
		// The list of connections shows the database, and so the process.
		name := fmt.Sprintf("sessions_%d", os.Getpid())
		if _, err := db.Exec(`CREATE DATABASE ` + name); err != nil {
			return nil, err
		}
		if err := db.Close(); err != nil {
			return nil, err
		}
		if db, err = newMariaDB("root", s.Addr, name, ""); err != nil {
			return nil, err
		}
		return sqllease.NewSessions(db, sqllease.SessionsConfig{Dialect: sqllease.MySQL})
	}
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&application_name=sessions-%d", s.Addr, os.Getpid()))
	if err != nil {
		return nil, err
	}
	return sqllease.NewSessions(db, sqllease.SessionsConfig{})
}

func sqlNode(db *sql.DB, d sqllease.Dialect) (leaderelect.LeaseStore, fenced, error) {
	leases, err := sqllease.New(db, sqllease.Config{Dialect: d})
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxIdleConns(4)
	return leases, sqlRegister{db, leases}, nil
}

// sqlRegister is a row, in a table "register".
type sqlRegister struct {
	db     *sql.DB
	leases *sqllease.Store
}

// makeRegister makes the table of the register.
func makeRegister(db *sql.DB) error {
	_, err := db.Exec(`CREATE TABLE register (value text)`)
	if err == nil {
		_, err = db.Exec(`INSERT INTO register VALUES ('0')`)
	}
	return err
}

func (r sqlRegister) swap(ctx context.Context, term uint64, value string) (old string, err error) {
	err = func() error {
		tx, err := r.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit it does nothing
		if err := r.leases.GuardTerm(ctx, tx, "lease", term); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT value FROM register`).Scan(&old); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE register SET value = '`+value+`'`); err != nil {
			return err
		}
		return tx.Commit()
	}()
	if errors.Is(err, sqllease.ErrFenced) {
		err = errRefused
	}
	return old, err
}

// redisRegister is a key.
type redisRegister struct{ leases *redislease.Store }

func (r redisRegister) swap(ctx context.Context, term uint64, value string) (string, error) {
	guarded := r.leases.Guarded
	if _, ok := leaderelect.FromContext(ctx); !ok {
		guarded = func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
			return r.leases.GuardedTerm(ctx, "lease", term, script, keys, args...)
		}
	}
	old, err := guarded(ctx,
		`local old = redis.call('GET', KEYS[1])
		redis.call('SET', KEYS[1], ARGV[1])
		return old or '0'`, []string{"{leases}-register"}, value)
	if errors.Is(err, redislease.ErrFenced) {
		err = errRefused
	}
	text, _ := old.(string)
	return text, err
}

// leaseRegister is a record of a lease store that remembers the greatest term it was written in: for backends that can
// compare and swap, but not guard one record by another. It refuses a leader from the first write of the next one on.
type leaseRegister struct{ store leaderelect.LeaseStore }

func (r leaseRegister) swap(ctx context.Context, term uint64, value string) (string, error) {
	for {
		e, err := r.store.Get(ctx, "register")
		if err != nil {
			return "", err
		}
		if term < e.Term {
			return "", errRefused
		}
		old := string(e.Value)
		e.Term, e.Value = term, []byte(value)
		if _, err := r.store.Update(ctx, e); !errors.Is(err, leaderelect.ErrConflict) {
			return old, err
		}
	}
}

// clock is a store as a process reaches it whose clock runs at another speed: the lease in a record is in its own seconds.
type clock struct {
	leaderelect.LeaseStore
	speed float64 // how many seconds pass in one second of it
}

func (c clock) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	e, err := c.LeaseStore.Get(ctx, key)
	return c.convert(e, c.speed), err
}

func (c clock) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return c.LeaseStore.Create(ctx, c.convert(e, 1/c.speed))
}

func (c clock) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return c.LeaseStore.Update(ctx, c.convert(e, 1/c.speed))
}

// convert multiplies every lease in a record.
func (clock) convert(e leaderelect.Entry, factor float64) leaderelect.Entry {
	var record map[string]any
	if json.Unmarshal(e.Value, &record) != nil {
		return e // there is none
	}
	if millis, ok := record["leaseMillis"].(float64); ok {
		record["leaseMillis"] = math.Round(millis * factor)
	}
	e.Value, _ = json.Marshal(record)
	return e
}
