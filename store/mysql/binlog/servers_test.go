//go:build linux

package binlog_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
)

// The connection to the binary log is encrypted if the data source name says so.
func TestConnectionsMayBeEncrypted(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir, _ := servertest.DaemonDir(t)
	files := map[string][]byte{
		"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), "key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	server := newServer(t, "ssl-cert="+filepath.Join(dir, "cert"), "ssl-key="+filepath.Join(dir, "key"))
	db := newSites(t, server)
	tabletest.Do(t, db, "CREATE USER secure IDENTIFIED BY 'pass word' REQUIRE SSL")
	tabletest.Do(t, db, "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO secure")
	cfg := sitesOn(server)
	cfg.DSN = "secure:pass word@tcp(" + server.Addr() + ")/"
	_, err = binlog.NewTable(t.Context(), db, tabletest.ScanSite, cfg)
	require.ErrorContains(t, err, "Access denied")
	cfg.DSN += "?tls=true"
	_, err = binlog.NewTable(t.Context(), db, tabletest.ScanSite, cfg)
	require.ErrorContains(t, err, "certificate")
	cfg.DSN = "secure:pass word@tcp(" + server.Addr() + ")/?tls=skip-verify"
	inf := tabletest.Follow(t, sitesIn(t, db, cfg), tabletest.SiteName)
	for n := range 10 {
		tabletest.Do(t, db, tabletest.PutSite, "a", n)
		tabletest.Agree(t, db, inf)
	}
}

// fake is a server that says only its version.
type fake string

func (f fake) Connect(context.Context) (driver.Conn, error) { return f, nil }
func (f fake) Driver() driver.Driver                        { return nil }
func (f fake) Prepare(string) (driver.Stmt, error)          { return f, nil }
func (f fake) Begin() (driver.Tx, error)                    { return nil, io.EOF }
func (f fake) Close() error                                 { return nil }
func (f fake) NumInput() int                                { return -1 }
func (f fake) Exec([]driver.Value) (driver.Result, error)   { return driver.ResultNoRows, nil }
func (f fake) Query([]driver.Value) (driver.Rows, error)    { return &fakeRows{f, false}, nil }

type fakeRows struct {
	fake
	ended bool
}

func (r *fakeRows) Columns() []string { return []string{"VERSION()"} }
func (r *fakeRows) Next(dest []driver.Value) error {
	if r.ended {
		return io.EOF
	}
	dest[0], r.ended = string(r.fake), true
	return nil
}

func TestOtherServersAreRefused(t *testing.T) {
	db := sql.OpenDB(fake("8.0.36"))
	defer func() { require.NoError(t, db.Close()) }()
	_, err := binlog.NewTable(t.Context(), db, tabletest.ScanSite, binlog.TableConfig{Table: "sites", DSN: "root@tcp(localhost)/"})
	require.ErrorContains(t, err, "the server is not MariaDB, but 8.0.36: package mysql, which is beside this one, follows a table by triggers")
}
