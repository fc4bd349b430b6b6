//go:build linux

package binlog_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
)

// The server is killed and started again, while writers of several processes write.
func TestCachesMatchTableWhenServerIsKilled(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	const name = "text that ignores case, accents, and spaces"
	k := tabletest.Kinds()[name]
	database, db, table := newTable(t, server, k)
	m := tabletest.NewMirror(t, table)
	p := tabletest.StartWriters(t, 3, server.Addr(), database, name, 0, "ROW")
	for range *cycles {
		advance(t, db, table)
		server.Restart()
		tabletest.EndPrepared(t, db) // or they keep their locks
	}
	advance(t, db, table)
	p.Stop()
	tabletest.EndPrepared(t, db)
	require.NoError(t, m.Compare(t.Context(), k, db, table, 20*time.Second, noDelay))
	lists, ends := m.Lists()
	t.Logf("%d kills, %d lists, %d ends of watches", *cycles, lists, len(ends))
}

// A reader reads through a proxy, which stops passing on bytes, or cuts the connections, while writers write. Then it goes on.
func TestCacheMatchesTableWhenReaderIsStoppedOrCut(t *testing.T) {
	t.Parallel()
	server := newServer(t, "net-write-timeout=1")
	db := newSites(t, server)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	proxy := servertest.NewProxy(t, server.Addr())
	dsn := tabletest.DSN("root", proxy.Addr(), name, "timeout=1s")
	far, err := tabletest.OpenPool(dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, far.Close()) }()
	cfg := sitesOn(server)
	cfg.DSN = dsn
	table := sitesIn(t, far, cfg)
	table.SetPatience(time.Second)
	broken := make(chan error, 100)
	inf, err := informer.New(table, tabletest.SiteName, informer.Config{OnError: func(err error) {
		select {
		case broken <- err:
		default:
		}
	}})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	for n := range *cycles {
		for i := range 20 {
			tabletest.Do(t, db, tabletest.PutSite, fmt.Sprint(i), rand.Int32())
		}
		tabletest.Do(t, db, tabletest.PutSite, "a", n)
		tabletest.Do(t, db, "DELETE FROM sites WHERE name = ?", fmt.Sprint(rand.IntN(20)))
		require.Eventually(t, func() bool { a, _ := inf.Get("a"); return a.Rev == n }, 20*time.Second, 10*time.Millisecond)
		if n%2 == 0 {
			proxy.Stall()
		} else {
			proxy.Cut()
		}
		tabletest.Do(t, db, "DELETE FROM sites WHERE name = ?", fmt.Sprint(rand.IntN(20)))
		tabletest.Do(t, db, tabletest.PutSite, "a", n+1)
		if n%2 == 0 {
			select {
			case <-broken:
			case <-time.After(20 * time.Second):
				t.Fatal("the watch goes on")
			}
		}
		proxy.Heal()
		require.Eventually(t, func() bool { a, _ := inf.Get("a"); return a.Rev == n+1 }, 20*time.Second, 10*time.Millisecond)
		tabletest.Agree(t, db, inf)
	}
}

// A watch that began before a file was removed expires, and one that is quiet does not.
func TestPurgedLogExpires(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db, others := newSites(t, server), newSites(t, server)
	table := sitesIn(t, db, sitesOn(server))
	var lists int
	inf, err := informer.New(countedSites{table, &lists}, tabletest.SiteName, informer.Config{OnError: func(error) {}})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	for n := range *cycles {
		tabletest.Do(t, db, tabletest.PutSite, "a", n)
		l, err := table.List(t.Context())
		require.NoError(t, err)
		tabletest.Do(t, db, tabletest.PutSite, "b", n)
		for range 3 {
			tabletest.Do(t, db, "FLUSH BINARY LOGS")
			tabletest.Do(t, others, tabletest.PutSite, "c", n)
		}
		tabletest.Agree(t, db, inf)
		purge(t, db)
		for _, err := range table.Watch(t.Context(), l.Version) {
			require.ErrorIs(t, err, informer.ErrExpired)
			require.NotErrorIs(t, err, informer.ErrNewHistory)
			require.ErrorContains(t, err, "the server has removed the file ")
		}
		tabletest.Do(t, db, "DELETE FROM sites WHERE name = 'b'")
		tabletest.Agree(t, db, inf)
	}
	assert.Equal(t, 1, lists) // the version of the quiet watch has moved on
}

type countedSites struct {
	*binlog.Table[site]
	lists *int
}

func (c countedSites) ListPages(ctx context.Context) iter.Seq2[informer.List[site], error] {
	*c.lists++
	return c.Table.ListPages(ctx)
}

// A transaction has more rows than a page, and more than the buffers.
func TestLargeTransactionIsReadInPages(t *testing.T) {
	t.Parallel()
	server := newServer(t, "max-binlog-size=4096", "log-bin-compress", "log-bin-compress-min-len=10")
	db := newSites(t, server)
	tabletest.Do(t, db, "INSERT INTO sites SELECT CONCAT('site ', seq), 0 FROM seq_1_to_50000")
	table := sitesIn(t, db, sitesOn(server))
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	tabletest.Do(t, db, "UPDATE sites SET rev = 1")
	tabletest.Do(t, db, "DELETE FROM sites WHERE name LIKE '%7'")
	tabletest.Agree(t, db, inf)
	v := inf.Version()
	tabletest.Do(t, db, "UPDATE sites SET name = CONCAT('new ', name)")
	n, gone, last := 0, 0, v
	for e, err := range table.Watch(t.Context(), v) {
		require.NoError(t, err)
		require.GreaterOrEqual(t, e.Version, last)
		last = e.Version
		switch e.Type {
		case informer.Deleted:
			gone++
		case informer.Modified:
			n++
		}
		if e.Type == informer.Bookmark || n == 45_000 && e.Version > v {
			break
		}
		require.True(t, e.Version == v || n+gone == 90_000, "an event within the transaction has a version after it")
	}
	assert.Equal(t, 45_000, n)
	assert.Equal(t, 45_000, gone)
	tabletest.Agree(t, db, inf)
}

// A prepared transaction is invisible until it is committed, by any connection, also after a restart of the server.
func TestPreparedTransactionsAreReportedWhenCommitted(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server)
	table := sitesIn(t, db, sitesOn(server))
	prepare := func(id, statement string) {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		for _, statement := range []string{"XA START " + id, statement, "XA END " + id, "XA PREPARE " + id} {
			tabletest.Do(t, conn, statement)
		}
		require.ErrorIs(t, conn.Raw(func(any) error { return sqldriver.ErrBadConn }), sqldriver.ErrBadConn) // its connection ends
	}
	events := tabletest.Watch(t, table)
	prepare("'one', 'branch', 7", "INSERT INTO sites VALUES ('one', 1)")
	prepare("'two'", "INSERT INTO sites VALUES ('two', 2)")
	tabletest.Do(t, db, tabletest.PutSite, "new", 1)
	assert.Equal(t, site{Name: "new", Rev: 1}, tabletest.Next(t, events).Object)
	tabletest.Do(t, db, "XA ROLLBACK 'two'")
	tabletest.Do(t, db, "XA COMMIT 'one', 'branch', 7")
	assert.Equal(t, site{Name: "one", Rev: 1}, tabletest.Next(t, events).Object)

	prepare("'three'", "INSERT INTO sites VALUES ('three', 3)")
	inf := tabletest.Follow(t, table, tabletest.SiteName) // begins while it is prepared
	tabletest.Do(t, db, "XA COMMIT 'three'")
	assert.Equal(t, site{Name: "three", Rev: 3}, tabletest.Next(t, events).Object)
	require.Eventually(t, func() bool { _, ok := inf.Get("three"); return ok }, 20*time.Second, 10*time.Millisecond)
}

// The server ends the older of two readers that have the same server_id. Both go on.
func TestReadersWithOneNumberBothGoOn(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server)
	table := sitesIn(t, db, sitesOn(server))
	calls := make(chan struct{}, 1000)
	table.SetReplicaID(func() uint32 {
		calls <- struct{}{}
		if len(calls) <= 6 {
			return 77
		}
		return rand.Uint32()
	})
	one, two := tabletest.Follow(t, table, tabletest.SiteName), tabletest.Follow(t, table, tabletest.SiteName)
	for n := range 20 {
		tabletest.Do(t, db, tabletest.PutSite, "a", n)
		tabletest.Agree(t, db, one)
		tabletest.Agree(t, db, two)
	}
}

func TestSettingsAndPrivilegesAreChecked(t *testing.T) {
	t.Parallel()
	refused := func(server *servertest.Server, db *sql.DB, change func(*binlog.TableConfig), want string) {
		t.Helper()
		cfg := sitesOn(server)
		if change != nil {
			change(&cfg)
		}
		_, err := binlog.NewTable(t.Context(), db, tabletest.ScanSite, cfg)
		require.ErrorContains(t, err, want)
	}
	without := servertest.MariaDB(t)
	refused(without, newSites(t, without), nil, "log_bin is off: the server must be started with it")

	filtered := newServer(t, "binlog-ignore-db=db_out")
	tabletest.Do(t, tabletest.Connect(t, filtered, ""), "CREATE DATABASE db_out")
	out := tabletest.Connect(t, filtered, "db_out")
	tabletest.Do(t, out, tabletest.CreateSites)
	refused(filtered, out, nil, "binlog_ignore_db is db_out, must not have the database db_out")

	server := newServer(t)
	db := newSites(t, server)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	for setting, c := range map[string]struct{ bad, good, want string }{
		"binlog_format":                     {"'MIXED'", "'ROW'", "binlog_format is MIXED, must be ROW"},
		"read_only":                         {"1", "0", "the server is read-only: connect to the primary"},
		"binlog_row_image":                  {"'MINIMAL'", "'FULL'", ""},
		"binlog_optimize_thread_scheduling": {"", "", ""}, // it cannot be set while the server runs
	} {
		if c.bad == "" {
			continue
		}
		tabletest.Do(t, db, "SET GLOBAL "+setting+" = "+c.bad)
		if c.want != "" {
			refused(server, db, nil, c.want)
		} else {
			_, err := binlog.NewTable(t.Context(), db, tabletest.ScanSite, sitesOn(server))
			require.NoError(t, err)
			tabletest.Do(t, db, "ALTER TABLE sites ADD UNIQUE (rev)")
			refused(server, db, func(c *binlog.TableConfig) { c.Key = []string{"rev"} }, "binlog_row_image is MINIMAL, must be FULL, because TableConfig.Key is not the primary key")
		}
		tabletest.Do(t, db, "SET GLOBAL "+setting+" = "+c.good)
	}
	for _, statement := range []string{
		"CREATE TABLE ids (id UUID PRIMARY KEY)", "CREATE TABLE packed (id INT PRIMARY KEY, v TEXT COMPRESSED)", "CREATE TABLE history (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
		"CREATE VIEW seen AS SELECT * FROM sites", "CREATE TABLE old (a INT PRIMARY KEY) ENGINE = MyISAM",
	} {
		tabletest.Do(t, db, statement)
	}
	for table, want := range map[string]string{
		"ids": `its column "id", which is in the key, has the type uuid`, "packed": `its column "v" is compressed`, "history": "it is system-versioned",
		"seen": "it is a view", "old": "it has the engine MyISAM", "missing": "there is no such table", keysName: "which is the name of a temporary table", "": "TableConfig.Table is empty",
	} {
		refused(server, db, func(c *binlog.TableConfig) { c.Table = table }, want)
	}
	for dsn, want := range map[string]string{
		"": "TableConfig.DSN is empty", "x": "TableConfig.DSN: ", "root@pipe(x)/": `TableConfig.DSN has the network "pipe"`,
		"root@tcp(localhost)/?tls=preferred": "TableConfig.DSN has tls=preferred", "root@tcp(" + filtered.Addr() + ")/": "TableConfig.DSN is of the server ",
		"nobody@tcp(" + server.Addr() + ")/": "Access denied for user 'nobody'",
	} {
		refused(server, db, func(c *binlog.TableConfig) { c.DSN = dsn }, want)
	}
	refused(server, db, func(c *binlog.TableConfig) { c.Verify = -1 }, "TableConfig.Verify is -1ns, must not be negative")
	refused(server, db, func(c *binlog.TableConfig) { c.Columns = []string{"rev"} }, `TableConfig.Columns lacks "name", which is in the key`)
	assert.PanicsWithValue(t, "binlog: NewTable called with a nil pool or scan", func() { _, _ = binlog.NewTable[int](t.Context(), db, nil, sitesOn(server)) })

	for _, statement := range []string{"CREATE USER least, reader", "GRANT SELECT ON sites TO least"} {
		tabletest.Do(t, db, statement)
	}
	least, err := tabletest.OpenPool(tabletest.DSN("least", server.Addr(), name, ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, least.Close()) }()
	reader := func(c *binlog.TableConfig) { c.DSN = "reader@tcp(" + server.Addr() + ")/" }
	refused(server, least, reader, "Access denied") // to temporary tables
	tabletest.Do(t, db, "GRANT CREATE TEMPORARY TABLES ON "+name+".* TO least")
	refused(server, least, reader, "BINLOG MONITOR")
	tabletest.Do(t, db, "GRANT BINLOG MONITOR ON *.* TO reader")
	refused(server, least, reader, "REPLICATION SLAVE")
	tabletest.Do(t, db, "GRANT REPLICATION SLAVE ON *.* TO reader")
	cfg := sitesOn(server)
	reader(&cfg)
	inf := tabletest.Follow(t, sitesIn(t, least, cfg), tabletest.SiteName)
	for n := range 5 {
		tabletest.Do(t, db, tabletest.PutSite, "a", n)
		tabletest.Do(t, db, tabletest.PutSite, "b", n+100)
		tabletest.Agree(t, db, inf)
	}
}

const keysName = "setpoint_keys"

// The log has only the columns that have changed, and the primary key.
func TestMinimalRowsHaveTheKey(t *testing.T) {
	t.Parallel()
	server := newServer(t, "binlog-row-image=MINIMAL")
	db := newDatabase(t, server)
	tabletest.Do(t, db, "CREATE TABLE sites (more INT, name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, rev INT, PRIMARY KEY (name, rev))")
	cfg := sitesOn(server)
	cfg.Columns = []string{"name", "rev"}
	inf := tabletest.Follow(t, sitesIn(t, db, cfg), func(s site) string { return fmt.Sprint(s.Name, s.Rev) })
	tabletest.Do(t, db, "INSERT INTO sites VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
	tabletest.Do(t, db, "UPDATE sites SET more = more + 1")
	tabletest.Do(t, db, "UPDATE sites SET rev = 9 WHERE name = 'a'")
	tabletest.Do(t, db, "UPDATE sites SET name = 'B' WHERE name = 'b'")
	tabletest.Do(t, db, "DELETE FROM sites WHERE name = 'c'")
	require.NoError(t, inf.CatchUp(t.Context()))
	var got []string
	for key := range inf.All() {
		got = append(got, key)
	}
	assert.ElementsMatch(t, []string{"a9", "B2"}, got)
}

func TestNamesAndKeysMayContainAnyCharacters(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newDatabase(t, server)
	tabletest.Do(t, db, "CREATE TABLE witness (a INT)")
	for _, name := range []string{"a`; DROP TABLE witness; --", `'; DROP TABLE witness; --`, `it's`, `?`, `%s`, `a.b`, `Ünï`, "ta\tb", `back\slash`, `select`, `n`, `l`, `k0`, `t`} {
		quoted := "`" + strings.ReplaceAll(name, "`", "``") + "`"
		other := "`" + strings.ReplaceAll("v"+name, "`", "``") + "`"
		cfg := sitesOn(server)
		cfg.Table, cfg.Columns = name, []string{name, "v" + name}
		tabletest.Do(t, db, "CREATE TABLE "+quoted+" ("+quoted+" VARBINARY(200) PRIMARY KEY, "+other+" INT UNIQUE, more INT)")
		inf := tabletest.Follow(t, sitesIn(t, db, cfg), tabletest.SiteName)
		want := map[string]int{}
		for n, key := range dbtest.Hostile() {
			if len(key) <= 200 {
				tabletest.Do(t, db, "INSERT INTO "+quoted+" VALUES (?, ?, 0)", key, n)
				want[key] = n
			}
		}
		require.NoError(t, inf.CatchUp(t.Context()), name)
		got := map[string]int{}
		for key, s := range inf.All() {
			got[key] = s.Rev
		}
		assert.Equal(t, want, got, name)
		tabletest.Do(t, db, "TRUNCATE "+quoted)
		require.Eventually(t, func() bool { return inf.Indexer().Len() == 0 }, 20*time.Second, 10*time.Millisecond)
	}
	tabletest.Do(t, db, "SELECT * FROM witness")
}

// The kinds of keys that the random writers lack.
func TestKeysOfEachTypeAreRead(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for kind, values := range map[string]string{
		"TINYINT UNSIGNED": "0, 127, 128, 255", "TINYINT": "-128, -1, 0, 127", "SMALLINT UNSIGNED": "0, 65535", "MEDIUMINT UNSIGNED": "0, 16777215", "MEDIUMINT": "-8388608, -1, 8388607",
		"INT UNSIGNED": "0, 4294967295", "INT(5) ZEROFILL": "1, 42, 4294967295", "BIGINT UNSIGNED": "0, 18446744073709551615", "BIGINT": "-9223372036854775808, -1, 0",
		"DECIMAL(30,10)": "-12345678901234567890.0123456789, 0, 0.0000000001, 99", "DECIMAL(5,0)": "-7, 0, 99999", "DOUBLE": "-1.5e300, 0.1, 1e-300, 3", "YEAR": "0, 1901, 2155",
		"DATE": "'0000-00-00', '1000-01-01', '9999-12-31'", "TIME(3)": "'-838:59:59', '-00:00:00.001', '00:00:00', '838:59:59'", "TIME(1)": "'-01:00:00.1', '01:00:00.9'", "TIME": "'-01:02:03', '05:06:07'",
		"TIME(6)": "'-00:00:00.000001', '00:00:00.000001'", "DATETIME": "'1000-01-01 00:00:00', '2026-10-25 02:30:00'", "DATETIME(6)": "'2026-10-25 02:30:00.000001', '9999-12-31 23:59:59.999999'",
		"TIMESTAMP": "'1970-01-02 00:00:00', '2037-12-31 23:59:59'", "BIT(1)": "b'0', b'1'", "BIT(64)": "b'0', x'ffffffffffffffff'", "BINARY(4)": "'', 'a', x'610000ff', x'0000000a'",
		"VARBINARY(300)": "'', 'a', REPEAT('b', 300), x'00'", "CHAR(200) CHARACTER SET utf8mb4": "'', 'a', 'b   c', REPEAT('日', 200)", "VARCHAR(300) CHARACTER SET ucs2": "'a', 'b '",
		"VARCHAR(9) CHARACTER SET cp1251": "'Ж', 'ж?'", "TEXT": "'', 'a', REPEAT('x', 3000)", "ENUM('a','b','')": "'a', 'b', ''", "SET('a','b','c')": "'', 'a,c', 'b'",
	} {
		t.Run(kind, func(t *testing.T) {
			db := newDatabase(t, server)
			tabletest.Do(t, db, "SET GLOBAL sql_mode = ''")
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			tabletest.Do(t, conn, "SET sql_mode = ''")
			unique := "PRIMARY KEY"
			cfg := sitesOn(server)
			if kind == "TEXT" {
				unique, cfg.Key = "NOT NULL UNIQUE", []string{"name"}
			}
			tabletest.Do(t, conn, "CREATE TABLE sites (name "+kind+" "+unique+", rev INT)")
			inf := tabletest.Follow(t, sitesIn(t, db, cfg), tabletest.SiteName)
			tabletest.Do(t, conn, "INSERT INTO sites VALUES ("+strings.Join(splitTop(values), ", 1), (")+", 1)")
			tabletest.Agree(t, db, inf)
			tabletest.Do(t, conn, "UPDATE sites SET rev = 2")
			tabletest.Agree(t, db, inf)
			require.Equal(t, len(splitTop(values)), inf.Indexer().Len())
			tabletest.Do(t, conn, "DELETE FROM sites")
			tabletest.Agree(t, db, inf)
			require.Zero(t, inf.Indexer().Len())
		})
	}
}

// splitTop splits a list at the commas outside of parentheses and quotes.
func splitTop(list string) (parts []string) {
	depth, begin, inside := 0, 0, false
	for i, ch := range list {
		switch {
		case ch == '\'':
			inside = !inside
		case inside:
		case ch == '(':
			depth++
		case ch == ')':
			depth--
		case ch == ',' && depth == 0:
			parts, begin = append(parts, strings.TrimSpace(list[begin:i])), i+1
		}
	}
	return append(parts, strings.TrimSpace(list[begin:]))
}

// A version that is read after a commit is that of the transaction, or a later one.
func TestCommittedVersionIsReachedWithTheTransaction(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server)
	table := sitesIn(t, db, sitesOn(server))
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	for n := range 50 {
		require.NoError(t, tabletest.InTx(t.Context(), db, func(tx *sql.Tx) error {
			_, err := tx.Exec(tabletest.PutSite, "mine", n)
			return err
		}))
		reported := dbtest.Reported{Context: t.Context()}
		v, err := table.CommittedVersion(&reported)
		require.NoError(t, err)
		require.Len(t, reported.Writes, 1)
		assert.Equal(t, table.Clock(), reported.Writes[0].Clock)
		assert.EqualValues(t, v, reported.Writes[0].Version)
		require.NoError(t, inf.WaitForVersion(t.Context(), v))
		mine, _ := inf.Get("mine")
		assert.Equal(t, site{Name: "mine", Rev: n}, mine)
	}
}

// A default of the sessions, and of the driver, does not change what a Table reads.
func TestSessionsOfAnyLevelReadTheSame(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	for _, options := range []string{
		"tx_isolation=%27READ-UNCOMMITTED%27", "tx_isolation=%27SERIALIZABLE%27", "parseTime=true&loc=Asia%2FTokyo&time_zone=%27%2B09%3A00%27", "clientFoundRows=true&interpolateParams=true",
		"autocommit=0", "sql_mode=%27ANSI,NO_BACKSLASH_ESCAPES%27", "charset=latin1", "tx_read_only=1",
	} {
		pool, err := tabletest.OpenPool(tabletest.DSN("root", server.Addr(), name, options))
		require.NoError(t, err)
		table := sitesIn(t, pool, sitesOn(server))
		inf, err := informer.New(table, tabletest.SiteName, informer.Config{OnError: func(err error) { t.Error(options, err) }})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		loop := looptest.StartIn(ctx, t, inf.Run)
		open, err := db.Begin()
		require.NoError(t, err)
		tabletest.Do(t, open, tabletest.PutSite, "open", 1)
		tabletest.Do(t, db, tabletest.PutSite, "a", 1)
		tabletest.Agree(t, db, inf)
		require.NoError(t, open.Rollback())
		tabletest.Do(t, db, "DELETE FROM sites")
		tabletest.Agree(t, db, inf)
		stop()
		require.NoError(t, loop.Stop())
		require.NoError(t, pool.Close())
	}
}
