// Package backendtest tests the lease stores of setpoint on real servers, and electors in real processes, while things
// are made to fail: Postgres, MariaDB, and Redis behind a proxy that stalls, delays, and cuts connections, SQLite, and plain files.
// It also tests leaders that call services over HTTP, all in processes of their own.
//
// It is a module of its own, because it requires database drivers and porcupine. It exports nothing, and runs on Linux. The
// programs postgres, initdb, mariadbd, and redis-server have to be installed. A test whose program is missing is skipped or, if the
// environment variable CI is set, fails.
//
//	go test .                                                    # the suite, histories, and each fault once per backend
//	BACKENDTEST_FAULTS=1000 go test -run Processes -v -timeout 2h . # as many faults in all, and a table in Markdown
//	BACKENDTEST_ROLLS=100 go test -run Rolling -v -timeout 1h .  # as many rolling restarts of each backend, and a table
//	go test -run - -bench Leases .                               # how many leases one Postgres renews
package backendtest
