// Command stores is the program webapp with databases: its copies share their objects, with the status of each, and their
// lease. When the leading copy is killed, another one takes over.
//
//	go run ./examples/webapp/stores -store sqlite:webapp.db                                in three terminals
//	go run ./examples/webapp/stores -store sqlite:webapp.db -status                        the tables of the leading copy
//	go run ./examples/webapp/stores -store postgres://postgres@localhost/postgres -demo    as with any store
//	go run ./examples/webapp/stores -store mysql://root@localhost:3306/test -demo
//	go run ./examples/webapp/stores -store etcd://localhost:2379 -demo
//	go run ./examples/webapp/stores -store nats://localhost:4222 -demo
//
// The copies run on one machine, because processes belong to a machine and are recorded in the state directory. They
// have the same -manifests, -state, and -store.
package main

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/setpoint-go/setpoint/examples/webapp/orchestrator"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/nats"
	"github.com/setpoint-go/setpoint/store/postgres"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func main() {
	os.Exit(orchestrator.Main(os.Args[1:], os.Stdout, os.Stderr, openers()))
}

// openers returns the databases by the prefix of their addresses.
func openers() map[string]orchestrator.Opener {
	return map[string]orchestrator.Opener{
		"etcd":     openEtcd,
		"mysql":    openMySQL,
		"nats":     openNATS,
		"postgres": openPostgres,
		"sqlite":   openSQLite,
	}
}

// openEtcd opens etcd://HOST:PORT,HOST:PORT,HOST:PORT.
func openEtcd(ctx context.Context, address, name string, create bool) (backend.Backend, func(), error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            strings.Split(strings.TrimPrefix(address, "etcd://"), ","),
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               zap.NewNop(), // errors are returned too
	})
	if err != nil {
		return nil, nil, err
	}
	db, err := etcd.Open(ctx, client, etcd.Config{Prefix: name, Existing: !create})
	return db, func() { _ = client.Close() }, err
}

// openMySQL opens mysql://USER:PASSWORD@HOST:PORT/DATABASE, a server of MariaDB or MySQL.
func openMySQL(ctx context.Context, address, name string, create bool) (backend.Backend, func(), error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	to := mysqldriver.NewConfig()
	to.User = u.User.Username()
	to.Passwd, _ = u.User.Password()
	to.Net, to.Addr, to.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	to.Timeout = 5 * time.Second
	to.Logger = &mysqldriver.NopLogger{} // errors are returned too
	connector, err := mysqldriver.NewConnector(to)
	if err != nil {
		return nil, nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxIdleConns(8)
	pool.SetConnMaxIdleTime(time.Minute)
	closePool := func() { _ = pool.Close() }
	cfg := mysql.Config{TablePrefix: name + "_"}
	if create {
		if err := mysql.Migrate(ctx, pool, cfg); err != nil {
			return nil, closePool, err
		}
	}
	db, err := mysql.Open(ctx, pool, cfg)
	return db, closePool, err
}

// openNATS opens nats://HOST:PORT, a server with JetStream.
func openNATS(ctx context.Context, address, name string, create bool) (backend.Backend, func(), error) {
	conn, err := natsgo.Connect(address, natsgo.MaxReconnects(-1), natsgo.PingInterval(10*time.Second))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, conn.Close, err
	}
	cfg := nats.Config{Stream: name}
	if create {
		if err := nats.Create(ctx, js, cfg); err != nil {
			return nil, conn.Close, err
		}
	}
	db, err := nats.Open(ctx, js, cfg)
	return db, conn.Close, err
}

// openPostgres opens postgres://USER:PASSWORD@HOST:PORT/DATABASE.
func openPostgres(ctx context.Context, address, name string, create bool) (backend.Backend, func(), error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	cfg := postgres.Config{Schema: name}
	if create {
		if err := postgres.Migrate(ctx, pool, cfg); err != nil {
			return nil, pool.Close, err
		}
	}
	db, err := postgres.Open(ctx, pool, cfg)
	return db, pool.Close, err
}

// openSQLite opens sqlite:FILE.
func openSQLite(ctx context.Context, address, name string, create bool) (backend.Backend, func(), error) {
	cfg := sqlite.Config{TablePrefix: name + "_", Existing: !create}
	db, err := sqlite.Open(ctx, strings.TrimPrefix(address, "sqlite:"), cfg)
	if err != nil {
		return nil, nil, err
	}
	return db, func() { _ = db.Close() }, nil
}
