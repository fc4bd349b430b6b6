//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql"
)

var errGone = errors.New("gone")

func TestBackend(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for name, test := range map[string]func(t *testing.T, server *servertest.Server){
		"Open and Migrate refuse unusable tables":                 unusableTablesAreRefused,
		"Open refuses sessions that read the past or the future":  sessionsAreRefused,
		"sessions of any other kind work the same":                sessionsOfAnyKindWorkTheSame,
		"Migrate is idempotent and safe to call concurrently":     migrateAtOnce,
		"an interrupted Migrate is continued":                     migrateIsContinued,
		"an administrator runs the SQL of the tables":             administratorRunsSQLOfTables,
		"tables may have any prefix":                              anyPrefix,
		"hostile strings are data":                                hostileStringsAreData,
		"terms may have the largest value":                        termsMayHaveLargestValue,
		"objects and rows commit together":                        objectsAndRowsCommitTogether,
		"a transaction on an old snapshot sees the present":       oldSnapshotSeesPresent,
		"a replaced leader writes nothing":                        replacedLeaderWritesNothing,
		"transactions that write several objects do not deadlock": severalObjectsDoNotDeadlock,
		"waiting for another writer ends with the context":        waitingEndsWithContext,
		"a lock that takes long delays a write":                   longLockDelaysWrite,
		"a deadlock ends a joined transaction":                    deadlockEndsJoinedTransaction,
		"an overtaken write restarts":                             overtakenWriteRestarts,
		"the history is trimmed":                                  historyIsTrimmed,
		"a default history is trimmed once in 64 writes":          historyIsTrimmedInPieces,
		"a damaged record is named":                               damagedRecordIsNamed,
		"the view shows live objects":                             viewShowsLiveObjects,
		"users with the least privileges":                         usersWithLeastPrivileges,
		"names are compared by their bytes":                       namesAreComparedByBytes,
		"a record is as large as Capabilities says":               largestRecord,
		"a watch expires when the history is another one":         watchOfOtherHistoryExpires,
		"concurrent writes share transactions":                    concurrentWritesShareTransactions,
		"a rejected write fails alone":                            rejectedWriteFailsAlone,
		"the context of a neighbor does not end a write":          neighborsContextDoesNotEndWrite,
		"a pool of one connection is enough":                      poolOfOneConnectionIsEnough,
		"versions ascend whatever the clock of the server is":     versionsAscendWhateverClockIs,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func second[T any](_ T, err error) error { return err }

func unusableTablesAreRefused(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	both := func(want string) {
		t.Helper()
		require.ErrorContains(t, second(mysql.Open(t.Context(), db, mysql.Config{})), want)
		require.ErrorContains(t, mysql.Migrate(t.Context(), db, mysql.Config{}), want)
	}
	require.EqualError(t, second(mysql.Open(t.Context(), db, mysql.Config{})),
		`mysql: open tables "setpoint_": they do not exist: call mysql.Migrate once`)
	require.NoError(t, mysql.Migrate(t.Context(), db, mysql.Config{}))
	tabletest.Do(t, db, "DROP TABLE setpoint_fences")
	both("they are incomplete: there is no table setpoint_fences")
	for _, layout := range []string{"2", "-1"} {
		tabletest.Do(t, db, "CREATE TABLE IF NOT EXISTS setpoint_fences (lease INT)")
		tabletest.Do(t, db, "UPDATE setpoint_state SET layout = "+layout)
		both("they have layout " + layout + ", this version of the library needs 1")
	}
	tabletest.Do(t, db, "ALTER TABLE setpoint_fences ENGINE = MyISAM")
	both("the table setpoint_fences has the engine MyISAM, must have InnoDB")
	tabletest.Do(t, db, "DROP TABLE setpoint_fences, setpoint_state")
	tabletest.Do(t, db, "CREATE TABLE setpoint_state (what INT)")
	both("the table setpoint_state belongs to another program: ")

	none := tabletest.Connect(t, server, "")
	require.ErrorContains(t, second(mysql.Open(t.Context(), none, mysql.Config{})), "the pool has no default database")
	require.ErrorContains(t, mysql.Migrate(t.Context(), none, mysql.Config{}), "the pool has no default database")
	for _, c := range []struct {
		cfg  mysql.Config
		want string
	}{
		{mysql.Config{History: -1}, "Config.History is -1, must not be negative"},
		{mysql.Config{Poll: -1}, "Config.Poll is -1ns, must not be negative"},
		{mysql.Config{TablePrefix: "A"}, `Config.TablePrefix is "A", must consist of a-z, 0-9 and _, and not begin with a digit`},
		{mysql.Config{TablePrefix: "a`"}, "Config.TablePrefix is \"a`\", must consist of a-z"},
		{mysql.Config{TablePrefix: strings.Repeat("x", 58)}, "Config.TablePrefix has 58 characters, must not have more than 57"},
	} {
		require.ErrorContains(t, second(mysql.Open(t.Context(), db, c.cfg)), c.want)
		require.ErrorContains(t, mysql.Migrate(t.Context(), db, c.cfg), c.want)
		require.ErrorContains(t, second(mysql.SQL(c.cfg)), c.want)
	}
	assert.PanicsWithValue(t, "mysql: Open called with a nil pool", func() { _, _ = mysql.Open(t.Context(), nil, mysql.Config{}) })
	assert.PanicsWithValue(t, "mysql: Migrate called with a nil pool", func() { _ = mysql.Migrate(t.Context(), nil, mysql.Config{}) })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, second(mysql.Open(ctx, db, mysql.Config{})), errGone)
	require.ErrorIs(t, mysql.Migrate(ctx, db, mysql.Config{}), errGone)
}

// as returns a pool of a user, whose sessions have options.
func as(t testing.TB, server *servertest.Server, user string, of *sql.DB, options string) *sql.DB {
	t.Helper()
	db, err := tabletest.OpenPool(tabletest.DSN(user, server.Addr(), databaseOf(t, of), options))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // a connection may be broken
	return db
}

func sessionsAreRefused(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	for options, want := range map[string]string{
		"autocommit=0":                        "the sessions of the pool have autocommit off",
		"tx_isolation=%27READ-UNCOMMITTED%27": "the sessions of the pool have the isolation level READ UNCOMMITTED",
		"autocommit=0&interpolateParams=true": "set autocommit=1 in the data source name",
	} {
		require.ErrorContains(t, second(mysql.Open(t.Context(), as(t, server, "root", one, options), mysql.Config{})), want)
	}
}

func sessionsOfAnyKindWorkTheSame(t *testing.T, server *servertest.Server) {
	for _, options := range []string{
		"tx_isolation=%27SERIALIZABLE%27", "tx_isolation=%27READ-COMMITTED%27", "parseTime=true&loc=Asia%2FTokyo&time_zone=%27%2B09%3A00%27",
		"clientFoundRows=true", "interpolateParams=true", "sql_mode=%27ANSI,NO_BACKSLASH_ESCAPES%27", "sql_mode=%27%27", "charset=latin1", "tx_read_only=1",
		"sql_safe_updates=1", "sql_select_limit=1000", "unique_checks=0&foreign_key_checks=0", "innodb_lock_wait_timeout=1", "binlog_format=%27STATEMENT%27", "multiStatements=true",
	} {
		one, _ := migrated(t, server)
		far := as(t, server, "root", one, options)
		db := open(t, far, mysql.Config{History: 500, Poll: time.Millisecond})
		dbtest.HostileStrings(t, db)
		var g sync.WaitGroup
		for w := range 4 {
			g.Go(func() {
				for n := range 25 {
					_, err := dbtest.Put(t.Context(), db, fmt.Sprint(w), fmt.Sprint(n), backend.Fence{Lease: "a", Term: 1})
					assert.NoError(t, err, options)
				}
			})
		}
		g.Wait()
		for w := range 4 {
			r, err := db.Get(t.Context(), "app", fmt.Sprint(w))
			require.NoError(t, err, options)
			assert.Equal(t, "24", string(r.Value), options)
		}
		seen := map[string]bool{}
		for p, err := range db.List(t.Context(), "app", backend.Query{}) {
			require.NoError(t, err, options)
			for _, r := range p.Records {
				seen[r.Key] = true
			}
		}
		for w := range 4 {
			assert.True(t, seen[fmt.Sprint(w)], options)
		}
	}
}

func migrateAtOnce(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	errs := make(chan error)
	const n = 8
	for range n {
		go func() { errs <- mysql.Migrate(t.Context(), db, mysql.Config{}) }() // the test waits for it
	}
	for range n {
		require.NoError(t, <-errs)
	}
	_, err := dbtest.Put(t.Context(), open(t, db, mysql.Config{}), "a", "1")
	require.NoError(t, err)
	require.NoError(t, mysql.Migrate(t.Context(), db, mysql.Config{}))
	r, err := open(t, db, mysql.Config{}).Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, "1", string(r.Value))
}

func migrateIsContinued(t *testing.T, server *servertest.Server) {
	text, err := mysql.SQL(mysql.Config{})
	require.NoError(t, err)
	statements := strings.Split(strings.TrimSuffix(text, ";\n"), ";\n")
	for done := range statements {
		db := newDatabase(t, server)
		for _, statement := range statements[:done] {
			tabletest.Do(t, db, statement)
		}
		require.ErrorContains(t, second(mysql.Open(t.Context(), db, mysql.Config{})), "call mysql.Migrate", "after %d statements", done)
		require.NoError(t, mysql.Migrate(t.Context(), db, mysql.Config{}), "after %d statements", done)
		_, err := dbtest.Put(t.Context(), open(t, db, mysql.Config{}), "a", "1")
		require.NoError(t, err)
		if done == 0 { // and a table that has lost its row is not one of an interrupted call
			tabletest.Do(t, db, "DELETE FROM setpoint_state")
			require.ErrorContains(t, mysql.Migrate(t.Context(), db, mysql.Config{}), "there are objects, but the table setpoint_state has no row")
		}
	}
}

func administratorRunsSQLOfTables(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	text, err := mysql.SQL(mysql.Config{TablePrefix: "shop_"})
	require.NoError(t, err)
	host, port, _ := strings.Cut(server.Addr(), ":")
	c := exec.Command(servertest.Program(t, "mariadb", "mariadb-client"), "--no-defaults", "--protocol=tcp", "--host="+host, "--port="+port, "--user=root", databaseOf(t, db))
	c.Stdin = strings.NewReader(text)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = dbtest.Put(t.Context(), open(t, db, mysql.Config{TablePrefix: "shop_"}), "a", "1")
	require.NoError(t, err)
}

func anyPrefix(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	for _, prefix := range []string{"a", "_", "select", "x1_", strings.Repeat("x", 57)} {
		cfg := mysql.Config{TablePrefix: prefix}
		require.NoError(t, mysql.Migrate(t.Context(), db, cfg), prefix)
		b := open(t, db, cfg)
		_, err := dbtest.Put(t.Context(), b, "a", prefix)
		require.NoError(t, err)
		for c, err := range b.Watch(t.Context(), "app", backend.Query{}, 0) {
			require.NoError(t, err)
			assert.Equal(t, prefix, string(c.Record.Value))
			break
		}
	}
}

func hostileStringsAreData(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	tabletest.Do(t, one, "CREATE TABLE witness (a INT)")
	dbtest.HostileStrings(t, open(t, one, mysql.Config{}))
	tabletest.Do(t, one, "SELECT * FROM witness")
}

func termsMayHaveLargestValue(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	db := open(t, one, mysql.Config{})
	const greatest = ^uint64(0)
	_, err := dbtest.Put(t.Context(), db, "a", "1", backend.Fence{Lease: "shop", Term: greatest})
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "a", "2", backend.Fence{Lease: "shop", Term: greatest - 1})
	require.ErrorIs(t, err, backend.ErrFenced)
	_, err = dbtest.Put(t.Context(), db, "a", "2", backend.Fence{Lease: "shop", Term: greatest})
	require.NoError(t, err)
}

// inStoreTx calls f in a transaction, with a context under which writes of a store are part of it.
func inStoreTx(ctx context.Context, db *sql.DB, f func(ctx context.Context, tx *sql.Tx) error) error {
	return tabletest.InTx(ctx, db, func(tx *sql.Tx) error { return f(mysql.WithTx(ctx, tx), tx) })
}

// inTxOf returns transactions for checks of package dbtest.
func inTxOf(db *sql.DB) dbtest.InTx {
	return func(ctx context.Context, f func(ctx context.Context) error) error {
		return inStoreTx(ctx, db, func(ctx context.Context, _ *sql.Tx) error { return f(ctx) })
	}
}

func objectsAndRowsCommitTogether(t *testing.T, server *servertest.Server) {
	one, two := migrated(t, server)
	db := open(t, one, mysql.Config{})
	s, other := dbtest.Apps(t, db), dbtest.Apps(t, open(t, two, mysql.Config{}))
	tabletest.Do(t, one, "CREATE TABLE orders (id VARCHAR(10) PRIMARY KEY)")
	orders := func() (n int) {
		require.NoError(t, two.QueryRow("SELECT COUNT(*) FROM orders").Scan(&n))
		return n
	}
	require.ErrorIs(t, inStoreTx(t.Context(), one, func(ctx context.Context, tx *sql.Tx) error {
		tabletest.Do(t, tx, "INSERT INTO orders VALUES ('1')")
		_, err := s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
		require.NoError(t, err)
		_, err = s.Get(ctx, "a")
		require.NoError(t, err, "the transaction sees its own write")
		_, err = other.Get(t.Context(), "a")
		require.ErrorIs(t, err, store.ErrNotFound, "no other process does")
		return errGone
	}), errGone)
	_, err := s.Get(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	assert.Zero(t, orders())

	var a, b store.Object[dbtest.App]
	require.NoError(t, inStoreTx(t.Context(), one, func(ctx context.Context, tx *sql.Tx) (err error) {
		a, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
		require.NoError(t, err)
		_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
		require.ErrorIs(t, err, store.ErrExists, "a rejection does not end the transaction")
		tabletest.Do(t, tx, "INSERT INTO orders VALUES ('1')")
		b, err = s.Create(ctx, store.Object[dbtest.App]{Key: "b"})
		return err
	}))
	require.Greater(t, b.Version, a.Version)
	assert.Equal(t, 1, orders())
	l, err := other.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.Items, 2)
	assert.Equal(t, b.Version, l.Version)
}

func oldSnapshotSeesPresent(t *testing.T, server *servertest.Server) {
	for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead} {
		one, two := migrated(t, server)
		s, theirs := dbtest.Apps(t, open(t, one, mysql.Config{})), dbtest.Apps(t, open(t, two, mysql.Config{}))
		tx, err := one.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		ctx := mysql.WithTx(t.Context(), tx)
		_, err = s.Get(ctx, "a") // takes the snapshot
		require.ErrorIs(t, err, store.ErrNotFound)
		a, err := theirs.Create(t.Context(), store.Object[dbtest.App]{Key: "a", Value: dbtest.App{Image: "theirs"}})
		require.NoError(t, err)
		_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a", Value: dbtest.App{Image: "mine"}})
		require.ErrorIs(t, err, store.ErrExists, level)
		mine := a
		mine.Value.Image = "mine"
		mine, err = s.Update(ctx, mine)
		require.NoError(t, err, level)
		require.NoError(t, tx.Commit())
		require.Greater(t, mine.Version, a.Version)
		got, err := theirs.Get(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, mine, got, level)
	}
}

// A leader writes an object and a row in one transaction. When another one leads, it writes neither.
func replacedLeaderWritesNothing(t *testing.T, server *servertest.Server) {
	one, two := migrated(t, server)
	s := dbtest.Apps(t, open(t, one, mysql.Config{}))
	tabletest.Do(t, one, "CREATE TABLE orders (id VARCHAR(10) PRIMARY KEY)")
	leases, err := sqllease.New(one, sqllease.Config{Dialect: sqllease.MySQL})
	require.NoError(t, err)
	require.NoError(t, leases.EnsureTable(t.Context()))
	leads := make(chan context.Context)
	elector, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: "shop", LeaseDuration: time.Hour, ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			leads <- ctx
			<-ctx.Done()
			return nil
		},
	})
	require.NoError(t, err)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- elector.Run(running) }() // ends with stop; the test waits for it
	leader := <-leads
	write := func(name string) error {
		return leases.Transact(leader, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(leader, "INSERT INTO orders VALUES (?)", name); err != nil {
				return err
			}
			_, err := s.Create(mysql.WithTx(leader, tx), store.Object[dbtest.App]{Key: name})
			return err
		})
	}
	require.NoError(t, write("first"))
	next := make(chan error, 1)
	require.NoError(t, leases.Transact(leader, func(tx *sql.Tx) error {
		_, err := s.Create(mysql.WithTx(leader, tx), store.Object[dbtest.App]{Key: "second"})
		require.NoError(t, err)
		go func() { // the test waits for it below
			_, err := two.ExecContext(context.WithoutCancel(leader), "UPDATE leases SET term = term + 1, version = 'next' WHERE name = 'shop'")
			next <- err
		}()
		select {
		case err := <-next:
			t.Errorf("the successor has not waited: %v", err)
		case <-time.After(100 * time.Millisecond): // in which nothing happens
		}
		return nil
	}))
	require.NoError(t, <-next)
	require.ErrorIs(t, write("third"), sqllease.ErrFenced)
	l, err := s.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.Items, 2)
	stop()
	<-ended // with whatever it makes of the lost lease
}

func severalObjectsDoNotDeadlock(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	dbtest.TransactionsDoNotDeadlock(t, open(t, one, mysql.Config{}), inTxOf(one))
}

func waitingEndsWithContext(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	dbtest.WriteWaitsForTransaction(t, open(t, one, mysql.Config{}), inTxOf(one))
}

// The server undoes a statement that has waited for a second, and the write waits on.
func longLockDelaysWrite(t *testing.T, server *servertest.Server) {
	t.Parallel()
	one, _ := migrated(t, server)
	hasty := as(t, server, "root", one, "innodb_lock_wait_timeout=1")
	db := open(t, hasty, mysql.Config{})
	tx := begin(t, one)
	tabletest.Do(t, tx, "SELECT * FROM setpoint_state FOR UPDATE")
	_, err := dbtest.Put(mysql.WithTx(t.Context(), begin(t, hasty)), db, "b", "1")
	require.ErrorContains(t, err, "1205", "a joined write returns the error")
	written := make(chan error)
	for n := range 3 {
		go func() { // the test waits for it
			_, err := dbtest.Put(t.Context(), db, fmt.Sprint(n), "1")
			written <- err
		}()
	}
	time.Sleep(1500 * time.Millisecond) // longer than the server waits
	require.NoError(t, tx.Commit())
	for range 3 {
		require.NoError(t, <-written)
	}
}

// Two transactions lock the tables and a row of the user in different orders. The one that the server ends gets its error, and can start over.
// A write on its own is not affected.
func deadlockEndsJoinedTransaction(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	db := open(t, one, mysql.Config{})
	tabletest.Do(t, one, "CREATE TABLE mine (id INT PRIMARY KEY, v INT)")
	tabletest.Do(t, one, "INSERT INTO mine VALUES (1, 0)")
	a, b := begin(t, one), begin(t, one)
	tabletest.Do(t, a, "UPDATE mine SET v = 1")
	_, err := dbtest.Put(mysql.WithTx(t.Context(), b), db, "b", "1")
	require.NoError(t, err)
	second := make(chan error)
	go func() { // the test waits for it
		_, err := dbtest.Put(mysql.WithTx(t.Context(), a), db, "a", "1")
		second <- err
	}()
	_, errB := b.ExecContext(t.Context(), "UPDATE mine SET v = 2")
	if errB == nil {
		require.NoError(t, b.Commit())
	} else {
		require.NoError(t, b.Rollback())
	}
	errA := <-second
	ended := errors.Join(errA, errB)
	refused := new(driver.MySQLError)
	require.ErrorAs(t, ended, &refused)
	assert.EqualValues(t, 1213, refused.Number)
	assert.True(t, (errA == nil) != (errB == nil), "%v, %v", errA, errB)
	require.NoError(t, a.Rollback())
	_, err = dbtest.Put(t.Context(), db, "c", "1")
	require.NoError(t, err)
}

func overtakenWriteRestarts(t *testing.T, server *servertest.Server) {
	one, two := migrated(t, server)
	dbtest.OvertakenWriteRestarts(t, open(t, one, mysql.Config{}), open(t, two, mysql.Config{}))
}

// changesAndObjects returns how many changes there are, and objects whose last change is not among them.
func changesAndObjects(t testing.TB, db *sql.DB) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow("SELECT (SELECT COUNT(*) FROM setpoint_changes) + COUNT(*) FROM setpoint_objects "+
		"WHERE version NOT IN (SELECT version FROM setpoint_changes)").Scan(&n))
	return n
}

func historyIsTrimmed(t *testing.T, server *servertest.Server) {
	const history = 10
	one, two := migrated(t, server)
	dbtest.HistoryIsTrimmed(t, open(t, one, mysql.Config{History: history}), open(t, two, mysql.Config{}), history, func() int {
		return changesAndObjects(t, one)
	})
}

func historyIsTrimmedInPieces(t *testing.T, server *servertest.Server) {
	const history = 2000
	one, _ := migrated(t, server)
	db := open(t, one, mysql.Config{History: history})
	_, err := dbtest.Put(t.Context(), db, "0", "1")
	require.NoError(t, err)
	copies(t, one, history+10)
	for n := range 200 {
		_, err := dbtest.Put(t.Context(), db, fmt.Sprint("new ", n), "1")
		require.NoError(t, err)
		var changes int
		require.NoError(t, one.QueryRow("SELECT COUNT(*) FROM setpoint_changes").Scan(&changes))
		require.GreaterOrEqual(t, changes, history)
		require.Less(t, changes, history+64+10)
	}
	var kept int
	require.NoError(t, one.QueryRow("SELECT COUNT(*) FROM setpoint_changes WHERE version > (SELECT horizon FROM setpoint_state)").Scan(&kept))
	assert.GreaterOrEqual(t, kept, history)
	assert.Less(t, kept, history+64)
	var trimmed bool
	require.NoError(t, one.QueryRow("SELECT MIN(version) > (SELECT horizon FROM setpoint_state) FROM setpoint_changes").Scan(&trimmed))
	assert.True(t, trimmed)
}

func damagedRecordIsNamed(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	db := open(t, one, mysql.Config{})
	written, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	tabletest.Do(t, one, `UPDATE setpoint_objects SET record = x'ff'`)
	tabletest.Do(t, one, `UPDATE setpoint_changes SET record = x'ff'`)
	what := fmt.Sprintf(": the record of version %d: ", written.Version)
	_, err = db.Get(t.Context(), "app", "a")
	require.ErrorContains(t, err, `mysql: get app "a"`+what)
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.ErrorContains(t, err, "mysql: list app"+what)
	}
	for _, err := range db.Watch(t.Context(), "app", backend.Query{}, 0) {
		require.ErrorContains(t, err, "mysql: watch app"+what)
	}
	_, err = dbtest.Put(t.Context(), db, "a", "2")
	require.ErrorContains(t, err, `mysql: write app "a"`+what)
}

func viewShowsLiveObjects(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	s := dbtest.Apps(t, open(t, one, mysql.Config{}))
	for _, key := range []string{"a", "é"} {
		_, err := s.Create(t.Context(), store.Object[dbtest.App]{Key: key, Value: dbtest.App{Image: "image of " + key}})
		require.NoError(t, err)
	}
	_, err := s.Delete(t.Context(), "a")
	require.NoError(t, err)
	var got string
	require.NoError(t, one.QueryRow("SELECT CONCAT(`key`, ': ', JSON_VALUE(value, '$.Image')) FROM setpoint_current WHERE kind = 'App'").Scan(&got))
	assert.Equal(t, "é: image of é", got)
}

func usersWithLeastPrivileges(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	name := databaseOf(t, one)
	fresh := newDatabase(t, server)
	for _, statement := range []string{
		"CREATE USER writing, reading, migrating, nobody",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON setpoint_objects TO writing", "GRANT SELECT, INSERT, DELETE ON setpoint_changes TO writing",
		"GRANT SELECT, INSERT, DELETE ON setpoint_fences TO writing", "GRANT SELECT, UPDATE ON setpoint_state TO writing",
		"GRANT SELECT ON " + name + ".* TO reading",
		"GRANT CREATE, CREATE VIEW, SELECT, INSERT, DROP ON " + databaseOf(t, fresh) + ".* TO migrating",
		"GRANT SELECT ON setpoint_current TO nobody",
	} {
		tabletest.Do(t, one, statement)
	}
	t.Cleanup(func() { tabletest.Do(t, one, "DROP USER writing, reading, migrating, nobody") })
	writing := open(t, as(t, server, "writing", one, ""), mysql.Config{History: 2})
	for n := range 10 {
		_, err := dbtest.Put(t.Context(), writing, "a", fmt.Sprint(n), backend.Fence{Lease: "x", Term: uint64(n + 1)})
		require.NoError(t, err)
		_, err = writing.Transact(t.Context(), "app", "b", nil, func(backend.Record) (*backend.Record, error) {
			return &backend.Record{Meta: []byte("{}"), Deleted: true}, nil
		})
		require.NoError(t, err)
	}
	reading := open(t, as(t, server, "reading", one, ""), mysql.Config{})
	r, err := reading.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, "9", string(r.Value))
	for p, err := range reading.List(t.Context(), "app", backend.Query{}) {
		require.NoError(t, err)
		assert.Len(t, p.Records, 1)
	}
	for c, err := range reading.Watch(t.Context(), "app", backend.Query{}, r.Version) {
		require.NoError(t, err)
		assert.Equal(t, "b", c.Record.Key)
		break
	}
	_, err = dbtest.Put(t.Context(), reading, "a", "1")
	require.ErrorContains(t, err, "denied")
	require.NoError(t, mysql.Migrate(t.Context(), as(t, server, "migrating", fresh, ""), mysql.Config{}))
	require.ErrorContains(t, second(mysql.Open(t.Context(), as(t, server, "nobody", one, ""), mysql.Config{})), "they do not exist: call mysql.Migrate once")
}

func namesAreComparedByBytes(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	db := open(t, one, mysql.Config{})
	keys := []string{" a", "ACME", "acme", "acme ", "acme  ", "ácme", "ｱ", "ア"}
	for n, key := range keys {
		r, err := db.Transact(t.Context(), "app", key, []backend.Fence{{Lease: key, Term: uint64(n + 1)}}, func(have backend.Record) (*backend.Record, error) {
			require.Zero(t, have.Version, "%q", key)
			return &backend.Record{Meta: []byte("{}"), Value: []byte(key)}, nil
		})
		require.NoError(t, err)
		require.NotZero(t, r.Version)
	}
	for _, key := range keys {
		r, err := db.Get(t.Context(), "app", key)
		require.NoError(t, err)
		assert.Equal(t, key, string(r.Value))
		r, err = db.Get(t.Context(), "APP", key)
		require.NoError(t, err)
		assert.Zero(t, r.Version)
	}
}

func largestRecord(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	s := dbtest.Apps(t, open(t, one, mysql.Config{}))
	most := open(t, one, mysql.Config{}).Capabilities().MaxBytes
	assert.InDelta(t, 8<<20, most, 1<<16, "half of the 16 MiB of the server")
	o, err := s.Create(t.Context(), store.Object[dbtest.App]{Key: strings.Repeat("k", backend.MaxKey), Value: dbtest.App{Image: strings.Repeat("x", most-2000)}})
	require.NoError(t, err)
	got, err := s.Get(t.Context(), o.Key)
	require.NoError(t, err)
	assert.Equal(t, o, got)
	small := as(t, server, "root", one, "maxAllowedPacket=100000")
	_, err = dbtest.Put(t.Context(), open(t, small, mysql.Config{}), "a", strings.Repeat("x", 100_000))
	require.ErrorIs(t, err, backend.ErrTooLarge)
	_, err = dbtest.Put(t.Context(), open(t, small, mysql.Config{}), "a", "1")
	require.NoError(t, err)
	var g sync.WaitGroup
	for w := range 8 { // a statement of all of them would be too large
		g.Go(func() {
			_, err := dbtest.Put(t.Context(), open(t, one, mysql.Config{}), fmt.Sprint(w), strings.Repeat("x", most/2))
			assert.NoError(t, err)
		})
	}
	g.Wait()
}

// backupStore makes a copy of the tables. The result restores it, as a server does that begins with the files of a backup.
func backupStore(t testing.TB, db *sql.DB) (restore func()) {
	t.Helper()
	tables := []string{"objects", "changes", "fences", "state"}
	for _, table := range tables {
		tabletest.Do(t, db, "CREATE OR REPLACE TABLE saved_"+table+" AS SELECT * FROM setpoint_"+table)
	}
	return func() {
		require.NoError(t, tabletest.InTx(context.WithoutCancel(t.Context()), db, func(tx *sql.Tx) error {
			for _, table := range tables {
				tabletest.Do(t, tx, "DELETE FROM setpoint_"+table)
				tabletest.Do(t, tx, "INSERT INTO setpoint_"+table+" SELECT * FROM saved_"+table)
			}
			return nil
		}))
	}
}

func watchOfOtherHistoryExpires(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	cfg := mysql.Config{History: 30, Poll: 5 * time.Millisecond}
	db := open(t, one, cfg)
	s := dbtest.Apps(t, db)
	inf := followApps(t, db)
	create := func(key string) store.Object[dbtest.App] {
		o, err := s.Create(t.Context(), store.Object[dbtest.App]{Key: key})
		require.NoError(t, err)
		return o
	}
	same := func() {
		t.Helper()
		l, err := s.List(t.Context())
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			if len(maps.Collect(inf.All())) != len(l.Items) {
				return false
			}
			for _, o := range l.Items {
				if got, ok := inf.Get(o.Key); !ok || got.UID != o.UID {
					return false
				}
			}
			return true
		}, 20*time.Second, time.Millisecond)
	}
	for name, writes := range map[string]int{"fewer writes": 3, "no write": 0, "as many writes": 10, "more writes": 20} {
		create("kept " + name)
		restore := backupStore(t, one)
		var lost store.Object[dbtest.App]
		for n := range 10 {
			lost = create(fmt.Sprint("lost ", name, n))
		}
		same()
		restore()
		for n := range writes {
			create(fmt.Sprint("new ", name, n))
		}
		same()
		for _, err := range s.Watch(t.Context(), lost.Version) {
			require.ErrorIs(t, err, backend.ErrExpired, name)
			break
		}
	}
}

func concurrentWritesShareTransactions(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	const writers, writes = 16, 25
	db := open(t, one, mysql.Config{})
	shared := db.CountShared()
	dbtest.WriteTogether(t, db, writers, writes)
	assert.NotZero(t, shared.Load())
}

func rejectedWriteFailsAlone(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	tabletest.Do(t, one, "CREATE TRIGGER bad BEFORE INSERT ON setpoint_changes FOR EACH ROW "+
		"IF NEW.`key` = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused'; END IF")

	db := open(t, one, mysql.Config{})
	var g sync.WaitGroup
	g.Go(func() {
		for range 50 {
			_, err := dbtest.Put(t.Context(), db, "bad", "{}")
			assert.ErrorContains(t, err, "refused")
		}
	})
	dbtest.WriteTogether(t, db, 8, 25)
	g.Wait()
}

// Writers share a transaction, and each has a context of its own.
func neighborsContextDoesNotEndWrite(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	dbtest.ImpatientWritersHarmNoOthers(t, open(t, one, mysql.Config{}), 3*time.Millisecond, 100)
}

func poolOfOneConnectionIsEnough(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	small := as(t, server, "root", one, "")
	small.SetMaxOpenConns(1)
	db := open(t, small, mysql.Config{})
	inf := followApps(t, db)
	s := dbtest.Apps(t, db)
	var g sync.WaitGroup
	for w := range 4 {
		g.Go(func() {
			for n := range 25 {
				_, err := s.Create(t.Context(), store.Object[dbtest.App]{Key: fmt.Sprint(w, "/", n)})
				assert.NoError(t, err)
			}
		})
	}
	g.Wait()
	l, err := s.List(t.Context())
	require.NoError(t, err)
	require.NoError(t, inf.WaitForVersion(t.Context(), l.Version))
	assert.Len(t, maps.Collect(inf.All()), 100)
}

// The sessions of some writers have another time, as if the clock of the server jumped to and fro.
func versionsAscendWhateverClockIs(t *testing.T, server *servertest.Server) {
	one, _ := migrated(t, server)
	var handles []*mysql.Backend
	for _, options := range []string{"", "timestamp=1000000000", "timestamp=2145916800", "timestamp=1767225600"} { // 2001, 2037, 2026
		handles = append(handles, open(t, as(t, server, "root", one, options), mysql.Config{Poll: 5 * time.Millisecond}))
	}
	writersAndWatchesAgree(t, one, handles)
	for _, b := range handles {
		r, err := dbtest.Put(t.Context(), b, "last", "1")
		require.NoError(t, err)
		assert.Less(t, r.Version, informer.Version(1)<<53)
	}
}
