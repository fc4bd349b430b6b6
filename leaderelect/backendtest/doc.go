// Package backendtest tests the lease stores of setpoint on real servers, and electors in real processes, while things
// are made to fail: Postgres and Redis behind a proxy that stalls, delays and cuts, SQLite, and plain files.
//
// It is a module of its own, because it requires database drivers and porcupine. It exports nothing, and runs on Linux. The
// programs postgres, initdb and redis-server have to be installed; a test whose program is missing is skipped, but not
// where the variable CI is set.
//
//	go test .                                                    # the suite, histories, and a few faults per backend
//	BACKENDTEST_FAULTS=1000 go test -run Processes -v -timeout 2h . # as many faults in all, and a table in Markdown
//	BACKENDTEST_ROLLS=100 go test -run Rolling -v -timeout 1h .  # as many rolling restarts of each backend, and a table
//	go test -run - -bench Leases .                               # how many leases one Postgres renews
package backendtest
