//go:build linux

package servertest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Cluster configures a Postgres server. The zero value is ready for use.
type Cluster struct {
	Settings []string // parameters, each as "fsync=off"
	Env      []string // of the process, besides those of this one
	Dir      string   // where it keeps its files; defaults to a temporary directory, in memory if there is room
	Disk     bool     // puts that directory in os.TempDir, for benchmarks that flush a disk
}

// Postgres starts a Postgres server on an empty cluster. The user is postgres, without a password. Each of settings is a parameter, such as
// "fsync=off".
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	return Cluster{Settings: settings}.Start(t)
}

// Start starts a Postgres server on an empty cluster. All such servers have one system identifier.
func (c Cluster) Start(t testing.TB) *Server {
	t.Helper()
	dir, attr := DaemonDir(t)
	switch {
	case c.Dir != "":
		dir = c.Dir
	case c.Disk:
		dir, attr = daemonDirIn(t, os.TempDir())
	}
	data := filepath.Join(dir, "data")
	runAs(t, attr, "cp", "-R", "--preserve=mode", emptyCluster(t), data)
	return postgresOn(t, data, attr, c)
}

// emptyCluster returns the directory of an empty cluster.
func emptyCluster(t testing.TB) string {
	t.Helper()
	initdb := Program(t, "initdb", "postgresql")
	return kept(t, "cluster-1mb", initdb, initdb, func(data string, attr *syscall.SysProcAttr) {
		runAs(t, attr, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
			"--wal-segsize=1") // megabytes; the default would be most of the copy
	})
}

// kept returns a directory with the empty data of a server, which fill makes with a program. That takes seconds, so the directory is kept for later
// tests, until the file of the given version is replaced.
func kept(t testing.TB, name, program, version string, fill func(data string, attr *syscall.SysProcAttr)) string {
	t.Helper()
	is, err := os.Stat(version)
	must(t, err)
	dir, attr := DaemonDir(t)
	path := filepath.Join(fastDir(), fmt.Sprintf("servertest-%s-%d-%d-%08x", name, os.Geteuid(), is.ModTime().UnixNano(), crc32.ChecksumIEEE([]byte(program))))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	data := filepath.Join(dir, "data")
	fill(data, attr)
	if err := os.Rename(data, path); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, os.ErrExist) { // another process was faster
		t.Fatal(err)
	}
	return path
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
	return postgresOn(t, data, attr, Cluster{Settings: settings})
}

// PromotePostgres makes a standby a primary, and returns when it accepts writes.
func PromotePostgres(t testing.TB, standby *Server) {
	t.Helper()
	runAs(t, standby.attr, Program(t, "pg_ctl", "postgresql"), "promote", "-w", "-D", standby.data)
}

// postgresOn starts a server on a cluster.
func postgresOn(t testing.TB, data string, attr *syscall.SysProcAttr, cluster Cluster) *Server {
	t.Helper()
	addr := FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	postgres, isReady := Program(t, "postgres", "postgresql"), Program(t, "pg_isready", "postgresql")
	s := Start(t, addr, func() *exec.Cmd {
		args := []string{"-D", data, "-h", "127.0.0.1", "-p", port, "-k", "", "-c", "shared_buffers=16MB", "-c", "max_connections=200"}
		for _, setting := range cluster.Settings {
			args = append(args, "-c", setting)
		}
		c := exec.Command(postgres, args...)
		c.SysProcAttr, c.Env = attr, append(os.Environ(), cluster.Env...)
		return c
	}, func() error {
		return exec.Command(isReady, "-q", "-h", "127.0.0.1", "-p", port).Run()
	})
	s.data, s.attr = data, attr
	return s
}

// runAs runs a program to its end, as the user of the server.
func runAs(t testing.TB, attr *syscall.SysProcAttr, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr, c.Dir = attr, "/"
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
}
