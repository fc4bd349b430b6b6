//go:build linux

package servertest

import (
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// MariaDB starts a MariaDB server on empty data. The user is root, without a password, and the database is test. Each of settings is an
// option, such as "innodb-flush-log-at-trx-commit=2".
func MariaDB(t testing.TB, settings ...string) *Server {
	t.Helper()
	return MariaDBIn(t, fastDir(), settings...)
}

// MariaDBIn is [MariaDB] with its files below a directory, such as that of a [Disk].
func MariaDBIn(t testing.TB, parent string, settings ...string) *Server {
	t.Helper()
	dir, attr := daemonDirIn(t, parent)
	data := filepath.Join(dir, "data")
	runAs(t, attr, "cp", "-R", "--preserve=mode", emptyMariaDB(t), data)
	runAs(t, attr, "mkdir", filepath.Join(data, "test"))
	addr := FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	server, admin := Program(t, "mariadbd", "mariadb-server"), Program(t, "mariadb-admin", "mariadb-client")
	s := Start(t, addr, func() *exec.Cmd {
		args := []string{
			"--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"),
			"--tmpdir=" + dir, // another server would delete temporary tables in a shared one when it starts
			"--bind-address=127.0.0.1", "--port=" + port, "--skip-name-resolve", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M",
			"--max-connections=200",
		}
		for _, setting := range settings {
			args = append(args, "--"+setting)
		}
		c := exec.Command(server, args...)
		c.SysProcAttr = attr
		return c
	}, func() error {
		return exec.Command(admin, "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port="+port, "--user=root", "--connect-timeout=2", "ping").Run()
	})
	s.data, s.attr, s.shutdown = data, attr, syscall.SIGTERM // it ignores SIGINT
	return s
}

// emptyMariaDB returns the directory of a server without data.
func emptyMariaDB(t testing.TB) string {
	t.Helper()
	install := Program(t, "mariadb-install-db", "mariadb-server")
	return kept(t, "mariadb", install, Program(t, "mariadbd", "mariadb-server"), func(data string, attr *syscall.SysProcAttr) {
		runAs(t, attr, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-name-resolve",
			"--skip-test-db", "--innodb-log-file-size=4M")
	})
}
