package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// kind is a kind of table. Its statements name it T. Its first columns are the key, then v and tag. v grows with every transaction. No writer
// deletes the row with the tag keep.
type kind struct {
	create  string   // with the row keep
	key     []string // the columns of the key
	keys    string   // values of a key; each % is a small number
	another string   // a column and its value, that a writer also sets; each % is a small number
	config  sqlite.TableConfig
}

// kinds are tables of many kinds.
func kinds() map[string]kind {
	return map[string]kind{
		"text": {
			create: `CREATE TABLE T (name TEXT NOT NULL PRIMARY KEY, v INTEGER, tag TEXT UNIQUE); INSERT INTO T VALUES ('keep', 0, 'keep')`,
			key:    []string{"name"}, keys: `'name %'`,
		},
		"numbered, with unique columns": {
			create: `CREATE TABLE T (id INTEGER PRIMARY KEY, v INTEGER, tag TEXT, email TEXT COLLATE NOCASE UNIQUE, UNIQUE (tag, email));
				CREATE UNIQUE INDEX T_tag ON T (tag); INSERT INTO T VALUES (-100, 0, 'keep', NULL)`,
			key: []string{"id"}, keys: `nullif(% - 1, 0)`, another: `email = substr('acme ACME Acme blue BLUE', 5 * % + 1, 4)`,
		},
		"nocase": {
			create: `CREATE TABLE T (name TEXT COLLATE NOCASE PRIMARY KEY, v INTEGER, tag TEXT); INSERT INTO T VALUES ('keep', 0, 'keep')`,
			key:    []string{"name"}, keys: `substr('acme ACME Acme blue BLUE', 5 * % + 1, 4)`,
		},
		"without rowid, composite": {
			create: `CREATE TABLE T (a TEXT COLLATE RTRIM, b INTEGER, v INTEGER, tag TEXT UNIQUE, w AS (v % 2), PRIMARY KEY (b, a)) WITHOUT ROWID;
				INSERT INTO T VALUES ('keep', 0, 0, 'keep')`,
			key: []string{"a", "b"}, keys: `substr('a   ', 1, 1 + % / 2), % / 3`,
		},
		"composite, with nulls": {
			create: `CREATE TABLE T (a TEXT, b REAL, v INTEGER, tag TEXT UNIQUE, PRIMARY KEY (a, b)); INSERT INTO T VALUES ('keep', 0, 0, 'keep')`,
			key:    []string{"a", "b"}, keys: `nullif('name %', 'name 2'), % / 2.0`,
		},
		"strict, with a partial index": {
			create: `CREATE TABLE T (id INTEGER PRIMARY KEY, v INTEGER NOT NULL, tag TEXT, x ANY) STRICT; INSERT INTO T VALUES (100, 0, 'keep', NULL);
				CREATE UNIQUE INDEX "T where" ON T (x, tag COLLATE NOCASE) /* WHERE ( */ WHERE v % 3 < 2 -- not all
				AND (tag <> 'where)''') -- the end`,
			key: []string{"id"}, keys: `%`, another: `x = % / 2`,
		},
		"any type": {
			create: `CREATE TABLE T (k PRIMARY KEY, v, tag UNIQUE); INSERT INTO T VALUES ('keep', 0, 'keep')`,
			key:    []string{"k"}, keys: `CASE % WHEN 0 THEN 1 WHEN 1 THEN 1.0 WHEN 2 THEN '1' WHEN 3 THEN x'31' WHEN 4 THEN 1.5 ELSE '' END`,
		},
		"children": {
			create: `CREATE TABLE T (id TEXT PRIMARY KEY, v INTEGER, tag TEXT UNIQUE, parent TEXT DEFAULT NULL REFERENCES T ON DELETE CASCADE ON UPDATE CASCADE);
				INSERT INTO T VALUES ('keep', 0, 'keep', NULL)`,
			key: []string{"id"}, keys: `'node %'`, another: `parent = (SELECT p.id FROM {}T p WHERE p.id = 'node %' AND p.tag <> 'keep')`,
		},
		"orphans": {
			create: `CREATE TABLE T (id TEXT PRIMARY KEY, v INTEGER, tag TEXT, next TEXT UNIQUE REFERENCES T ON DELETE SET NULL ON UPDATE SET DEFAULT);
				INSERT INTO T VALUES ('keep', 0, 'keep', NULL)`,
			key: []string{"id"}, keys: `'node %'`, another: `next = (SELECT p.id FROM {}T p WHERE p.id = 'node %' AND p.tag <> 'keep')`,
		},
		"a key that is not the primary key": {
			create: `CREATE TABLE T (name TEXT, v INTEGER, tag TEXT UNIQUE, id INTEGER PRIMARY KEY); CREATE UNIQUE INDEX T_name ON T (name COLLATE NOCASE);
				CREATE UNIQUE INDEX T_exact ON T (name); INSERT INTO T VALUES ('keep', 0, 'keep', 100)`,
			key: []string{"name"}, keys: `substr('acme ACME Acme blue BLUE', 5 * % + 1, 4)`, another: `id = 1 + %`,
			config: sqlite.TableConfig{Key: []string{"NAME"}},
		},
	}
}

// few is how many small numbers there are.
const few = 5

// numbered replaces each % of a pattern.
func numbered(random *rand.Rand, pattern string) string {
	var text strings.Builder
	for _, part := range strings.SplitAfter(pattern, "%") {
		if before, ok := strings.CutSuffix(part, "%"); ok {
			part = before + strconv.Itoa(random.IntN(few))
		}
		text.WriteString(part)
	}
	return text.String()
}

// statement returns a random statement.
func (k kind) statement(random *rand.Rand) string {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	keys := func() string { return numbered(random, k.keys) }
	key, isKey := strings.Join(k.key, ", "), func() string { return fmt.Sprintf("(%s) = (%s)", strings.Join(k.key, ", "), keys()) }
	tick, tag := `(SELECT n FROM {}ticks)`, fmt.Sprintf("nullif('tag %d', 'tag 0')", random.IntN(few))
	name, value, set := "", "", ""
	if k.another != "" && random.IntN(2) == 0 {
		set = numbered(random, k.another)
		name, value, _ = strings.Cut(set, " = ")
		name, value, set = ", "+name, ", "+value, ", "+set
	}
	or := one("", "OR REPLACE", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT", "OR ROLLBACK")
	const others = " AND tag IS NOT 'keep'"
	switch random.IntN(12) {
	default:
		return fmt.Sprintf(`INSERT %s INTO {}T (%s, v, tag%s) VALUES (%s, %s, %s%s)`, or, key, name, keys(), tick, tag, value)
	case 0:
		return fmt.Sprintf(`INSERT INTO {}T (%s, v, tag%s) VALUES (%s, %s, %s%s) ON CONFLICT DO UPDATE SET v = excluded.v, tag = excluded.tag WHERE tag IS NOT 'keep'`,
			key, name, keys(), tick, tag, value)
	case 1:
		return fmt.Sprintf(`UPDATE %s {}T SET v = %s, tag = %s%s WHERE %s%s`, or, tick, tag, set, isKey(), others)
	case 2:
		return fmt.Sprintf(`UPDATE %s {}T SET v = %s, (%s) = (%s)%s WHERE %s%s`, or, tick, key, keys(), set, isKey(), others)
	case 3:
		return fmt.Sprintf(`DELETE FROM {}T WHERE %s%s`, isKey(), others)
	case 4:
		return one(`UPDATE {}T SET v = `+tick, `DELETE FROM {}T WHERE true`+others, `UPDATE {}T SET tag = tag`, `SELECT count(*) FROM {}T`)
	}
}

// failing returns a statement that leaves its first row, unless that fails, and fails at its second one.
func (k kind) failing(random *rand.Rand) string {
	row := fmt.Sprintf("(%s, (SELECT n FROM {}ticks), NULL)", numbered(random, k.keys))
	return fmt.Sprintf("INSERT OR FAIL INTO {}T (%s, v, tag) VALUES %s, %s", strings.Join(k.key, ", "), row, row)
}

// transaction returns the statements of a random transaction.
func (k kind) transaction(random *rand.Rand) (statements []string) {
	if random.IntN(300) == 0 {
		return []string{"VACUUM"}
	}
	if random.IntN(20) == 0 {
		return []string{k.failing(random)}
	}
	statements = []string{"BEGIN IMMEDIATE", "UPDATE {}ticks SET n = n + 1"}
	for range 1 + random.IntN(4) {
		if random.IntN(4) == 0 {
			statements = append(statements, "SAVEPOINT s", k.statement(random), []string{"RELEASE s", "ROLLBACK TO s"}[random.IntN(2)])
		}
		statements = append(statements, k.statement(random))
	}
	if random.IntN(8) == 0 {
		return append(statements, "ROLLBACK")
	}
	return append(statements, "COMMIT")
}

// inSchema returns a statement on the tables of a schema.
func inSchema(schema, statement string) string {
	if statement == "VACUUM" {
		return "VACUUM " + schema
	}
	return strings.ReplaceAll(statement, "{}", schema+".")
}

// write makes random transactions on a connection, until one of them fails for another reason than a constraint, or stop says so.
func (k kind) write(ctx context.Context, conn *sql.Conn, random *rand.Rand, schema string, stop func() bool) error {
	for !stop() {
		for _, statement := range k.transaction(random) {
			_, err := conn.ExecContext(ctx, inSchema(schema, statement))
			switch {
			case err == nil:
			case strings.Contains(err.Error(), "constraint failed"), strings.Contains(err.Error(), "datatype mismatch"):
			case strings.Contains(err.Error(), "no transaction is active"), strings.Contains(err.Error(), "no such savepoint"): // after OR ROLLBACK
			case strings.Contains(err.Error(), "locked"): // by the others, for longer than the busy_timeout, or by a VACUUM
			default:
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		if _, err := conn.ExecContext(ctx, "ROLLBACK"); err == nil {
			return errors.New("a transaction was left open")
		}
	}
	return nil
}

// connect opens a connection of a writer, with random settings. The file may be attached.
func connect(ctx context.Context, path string, random *rand.Rand) (conn *sql.Conn, schema string, end func(), err error) {
	schema, name := "main", "file:"+path
	if random.IntN(3) == 0 {
		schema, name = "attached", "file::memory:"
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, "", nil, err
	}
	if conn, err = db.Conn(ctx); err != nil {
		return nil, "", nil, errors.Join(err, db.Close())
	}
	for _, text := range []string{
		"PRAGMA busy_timeout = 60000", "PRAGMA foreign_keys = ON", fmt.Sprintf("PRAGMA recursive_triggers = %d", random.IntN(2)), "PRAGMA synchronous = OFF",
		"CREATE TEMP TABLE setpoint_changes (n)", // hides nothing
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return nil, "", nil, err
		}
	}
	if schema == "attached" {
		_, err = conn.ExecContext(ctx, "ATTACH ? AS attached", path)
	}
	return conn, schema, func() { _, _ = conn.Close(), db.Close() }, err
}

const tableWriter = "SETPOINT_TABLE_WRITER" // the file, the kind, a seed, and a number of transactions

// tableWriterMain makes this process a writer of a table, and does not return, if its environment asks for it.
func tableWriterMain() {
	args := strings.Split(os.Getenv(tableWriter), "\n")
	if len(args) != 4 {
		return
	}
	err := func() error {
		seed, _ := strconv.ParseUint(args[2], 10, 64)
		left, _ := strconv.Atoi(args[3])
		random := rand.New(rand.NewPCG(seed, 1))
		conn, schema, end, err := connect(context.Background(), args[0], random)
		if err != nil {
			return err
		}
		defer end()
		return kinds()[args[1]].write(context.Background(), conn, random, schema, func() bool {
			fmt.Println(left)
			left--
			return left < 0
		})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process starts a process that makes transactions. It returns it, and a function that waits until the process has made some.
func process(t testing.TB, path, kind string, seed uint64, transactions int) (c *exec.Cmd, after func(n int)) {
	t.Helper()
	c = exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%d\n%d", tableWriter, path, kind, seed, transactions))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	lines := bufio.NewScanner(out)
	return c, func(n int) {
		for range n {
			if !lines.Scan() {
				return
			}
		}
		go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	}
}

// shell starts the shell of SQLite, another version in another language, which makes transactions. It returns nil if there is none.
func shell(t testing.TB, path string, k kind, random *rand.Rand, transactions int) *exec.Cmd {
	t.Helper()
	name, err := exec.LookPath("sqlite3")
	if err != nil {
		return nil
	}
	var script strings.Builder
	fmt.Fprintf(&script, ".timeout 60000\nPRAGMA foreign_keys = ON;\nPRAGMA recursive_triggers = %d;\nPRAGMA synchronous = OFF;\n", random.IntN(2))
	for range transactions {
		for _, statement := range k.transaction(random) {
			script.WriteString(inSchema("main", statement) + ";\n")
		}
		script.WriteString("ROLLBACK;\n") // if one is open
	}
	c := exec.Command(name, path)
	c.Stdin = strings.NewReader(script.String())
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// entry is a row of a table of any kind.
type entry struct {
	Key, Tag string
	V        int64
}

func (k kind) columns() int { return len(k.key) + 2 }

func text(v any) string { return fmt.Sprintf("%T %v/", v, v) }

// scan reads a row.
func (k kind) scan(row sqlite.Row) (e entry, err error) {
	values := make([]any, len(k.key))
	dest := make([]any, 0, k.columns())
	for i := range values {
		dest = append(dest, &values[i])
	}
	var tag sql.NullString
	if err := row.Scan(append(dest, &e.V, &tag)...); err != nil {
		return e, err
	}
	for _, v := range values {
		e.Key += text(v)
	}
	e.Tag = tag.String
	return e, nil
}

// rows reads the table, with a query of the test.
func (k kind) rows(ctx context.Context, db *sql.DB) (map[string]entry, error) {
	rows, err := db.QueryContext(ctx, `SELECT `+strings.Join(k.key, ", ")+`, v, tag FROM T WHERE `+strings.Join(k.key, " IS NOT NULL AND ")+` IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	found := map[string]entry{}
	for rows.Next() {
		e, err := k.scan(rows)
		if err != nil {
			return nil, err
		}
		found[e.Key] = e
	}
	return found, rows.Err()
}

// newFile creates a file with a table of a kind, and its log.
func (k kind) newFile(t testing.TB, journal string) (path string, db *sql.DB, table *sqlite.Table[entry]) {
	t.Helper()
	path = filepath.Join(looptest.MemoryDir(t), "x.db")
	db = pool(t, path, journal)
	do(t, db, `CREATE TABLE ticks (n INTEGER); INSERT INTO ticks VALUES (1); `+k.create)
	cfg := k.config
	cfg.Table, cfg.Columns, cfg.Poll, cfg.History = "t", append(slices.Clone(k.key), "V", "tag"), 2*time.Millisecond, 5000
	require.NoError(t, sqlite.InstallTable(t.Context(), db, cfg))
	table, err := sqlite.NewTable(t.Context(), db, k.scan, cfg)
	require.NoError(t, err)
	return path, db, table
}

// mirror is an informer of a table, and what its handler has seen.
type mirror struct {
	inf   *informer.Informer[string, entry]
	mu    sync.Mutex
	last  map[string]int64 // the greatest v of each key
	lists int
	wrong []string
}

func newMirror(t testing.TB, source informer.ListWatcher[entry]) *mirror {
	t.Helper()
	m := &mirror{last: map[string]int64{}}
	var err error
	m.inf, err = informer.New(counted{source, m}, func(e entry) string { return e.Key }, informer.Config{OnError: func(err error) {
		// A VACUUM changes the schema. Nobody replaces the file. With a rollback journal, writers may leave a reader no time.
		if errors.Is(err, informer.ErrNewHistory) || !errors.Is(err, informer.ErrExpired) && !strings.Contains(err.Error(), "database is locked") {
			m.complain("%v", err)
		}
	}})
	require.NoError(t, err)
	saw := func(e entry) {
		m.mu.Lock()
		before := m.last[e.Key]
		m.last[e.Key] = e.V
		m.mu.Unlock()
		if e.V < before {
			m.complain("%s goes back from %d to %d", e.Key, before, e.V)
		}
	}
	_, err = m.inf.AddHandler(informer.Handler[string, entry]{
		EveryEvent: true,
		OnAdd:      func(e entry, _ bool) { saw(e) },
		OnUpdate:   func(_, e entry) { saw(e) },
		OnDelete: func(e informerTombstone) {
			if e.Object.Tag == "keep" {
				m.complain("the row that nobody deletes was deleted")
			}
		},
	})
	require.NoError(t, err)
	loop := looptest.Start(t, m.inf.Run)
	t.Cleanup(func() { require.NoError(t, loop.Stop()) })
	return m
}

func (m *mirror) complain(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// compare waits until the cache has everything, and compares it with the table. Nobody may write.
func (m *mirror) compare(ctx context.Context, k kind, db *sql.DB, table *sqlite.Table[entry]) error {
	return m.compareWithin(ctx, k, db, table, 20*time.Second)
}

func (m *mirror) compareWithin(ctx context.Context, k kind, db *sql.DB, table *sqlite.Table[entry], patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := table.LatestVersion(ctx)
	if err != nil {
		return err
	}
	if err := m.inf.WaitForVersion(ctx, v); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		return fmt.Errorf("%w: %v", err, m.wrong)
	}
	want, err := k.rows(ctx, db)
	if err != nil {
		return err
	}
	if got := maps.Collect(m.inf.All()); !maps.Equal(got, want) {
		return fmt.Errorf("the cache has %v, want %v", got, want)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wrong) > 0 {
		return errors.New(strings.Join(m.wrong, "\n"))
	}
	return nil
}

// Writers of several processes, in two programs, one of which is killed and restarted, write each kind of table at random.
func TestTableCachesMatchTableDespiteRandomWriters(t *testing.T) {
	t.Parallel()
	for name, k := range kinds() {
		for _, journal := range []string{"WAL", "DELETE"} {
			t.Run(name+"/"+journal, func(t *testing.T) {
				t.Parallel()
				path, db, table := k.newFile(t, journal)
				mirrors := []*mirror{newMirror(t, table)}
				random := rand.New(rand.NewPCG(uint64(len(name)), uint64(len(journal))))
				const transactions = 60
				for range *cycles {
					victim, after := process(t, path, name, random.Uint64(), 1_000_000)
					other, soon := process(t, path, name, random.Uint64(), transactions)
					another := shell(t, path, k, random, transactions)
					soon(1)
					after(10 + random.IntN(20))
					require.NoError(t, victim.Process.Kill())
					_ = victim.Wait()
					third, soon := process(t, path, name, random.Uint64(), transactions) // it is restarted
					soon(1)
					if len(mirrors) < 3 {
						mirrors = append(mirrors, newMirror(t, table))
					}
					require.NoError(t, other.Wait())
					require.NoError(t, third.Wait())
					if another != nil {
						_ = another.Wait() // a refused statement is an error
					}
					for _, m := range mirrors {
						require.NoError(t, m.compare(t.Context(), k, db, table))
					}
				}
				var sound string
				require.NoError(t, db.QueryRow("PRAGMA integrity_check").Scan(&sound))
				assert.Equal(t, "ok", sound)
				var n int64
				require.NoError(t, db.QueryRow("SELECT seq FROM sqlite_sequence").Scan(&n))
				t.Logf("%d kills, %d changes, %d lists of the first of %d caches", *cycles, n, mirrors[0].lists, len(mirrors))
			})
		}
	}
}

type informerTombstone = cache.Tombstone[string, entry]

// counted counts the lists of a source.
type counted struct {
	informer.ListWatcher[entry]
	m *mirror
}

func (c counted) List(ctx context.Context) (informer.List[entry], error) {
	c.m.mu.Lock()
	c.m.lists++
	c.m.mu.Unlock()
	return c.ListWatcher.List(ctx)
}
