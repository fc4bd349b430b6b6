//go:build linux

package servertest

import (
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Postgres starts a Postgres server on an empty cluster. The user is postgres, who needs no password. Each of settings is
// a parameter, as "fsync=off".
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	initdb := Program(t, "initdb", "postgresql")
	dir, attr := DaemonDir(t)
	data := filepath.Join(dir, "data")
	runAs(t, attr, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	return postgresOn(t, data, attr, settings)
}

// PostgresStandby copies a running Postgres server and starts the copy as a standby, which replicates from it. It reaches
// the server at the address primary.
func PostgresStandby(t testing.TB, primary string, settings ...string) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(primary)
	must(t, err)
	dir, attr := DaemonDir(t)
	data := filepath.Join(dir, "data")
	runAs(t, attr, Program(t, "pg_basebackup", "postgresql"),
		"-h", host, "-p", port, "-U", "postgres", "-D", data, "-c", "fast", "--no-sync", "--write-recovery-conf")
	return postgresOn(t, data, attr, settings)
}

// PromotePostgres makes a standby a primary, and returns when it takes writes.
func PromotePostgres(t testing.TB, standby *Server) {
	t.Helper()
	runAs(t, standby.attr, Program(t, "pg_ctl", "postgresql"), "promote", "-w", "-D", standby.data)
}

// postgresOn starts a server on a cluster.
func postgresOn(t testing.TB, data string, attr *syscall.SysProcAttr, settings []string) *Server {
	t.Helper()
	addr := FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	postgres, isReady := Program(t, "postgres", "postgresql"), Program(t, "pg_isready", "postgresql")
	s := Start(t, addr, func() *exec.Cmd {
		args := []string{"-D", data, "-h", "127.0.0.1", "-p", port, "-k", "", "-c", "shared_buffers=16MB", "-c", "max_connections=200"}
		for _, setting := range settings {
			args = append(args, "-c", setting)
		}
		c := exec.Command(postgres, args...)
		c.SysProcAttr = attr
		return c
	}, func() error {
		return exec.Command(isReady, "-q", "-h", "127.0.0.1", "-p", port).Run()
	})
	s.data, s.attr = data, attr
	return s
}

// runAs runs a program of the server to its end, as the user of the server.
func runAs(t testing.TB, attr *syscall.SysProcAttr, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr, c.Dir = attr, "/"
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
}
