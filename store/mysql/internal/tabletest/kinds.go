//go:build linux

// Package tabletest is for the tests of the two ways to follow a table of the user. It has a table of sites, tables of many kinds, processes that
// write them at random, and a check that a cache shows what they have written.
package tabletest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/internal/dbtest"
)

// Kind is a kind of table. Its statements name it T. Its first columns are the key, then born, v, and tag. No writer deletes the row with the
// tag keep, or gives it another key. A row that is inserted, or gets another key, has another born, which is unique. An update increments v.
type Kind struct {
	create string   // with the row keep
	Key    []string // the columns of the key
	Named  []string // for TableConfig.Key, if the key is not the primary key
	set    []string // the columns that a writer sets to give a row a key; those of the key if empty
	keys   string   // values of them; each % is a small number
	more   string   // assignments of other columns, after which nothing else changes
}

// rest are the columns after the key.
const rest = `born BIGINT UNSIGNED NOT NULL, v BIGINT NOT NULL, tag VARCHAR(20) NULL`

// Kinds are tables of many kinds.
func Kinds() map[string]Kind {
	words := `ELT(1 + %, 'acme', 'ACME', 'äcme', 'acme  ', 'blue')`
	return map[string]Kind{
		"binary text": {
			create: `CREATE TABLE T (name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, ` + rest + `, UNIQUE (tag));
				INSERT INTO T VALUES ('keep', 1, 0, 'keep')`,
			Key: []string{"name"}, keys: `ELT(1 + %, 'a', 'A', 'ä', 'a ', 'b')`,
		},
		"text that ignores case, accents, and spaces": {
			create: `CREATE TABLE T (name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, ` + rest + `, UNIQUE (tag));
				INSERT INTO T VALUES ('keep', 1, 0, 'keep')`,
			Key: []string{"name"}, keys: words,
		},
		"text that ignores case, without padding": {
			create: `CREATE TABLE T (name CHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_nopad_ci PRIMARY KEY, ` + rest + `);
				INSERT INTO T VALUES ('keep', 1, 0, 'keep')`,
			Key: []string{"name"}, keys: words,
		},
		"text of Latin letters, with a unique number": {
			create: `CREATE TABLE T (email VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL UNIQUE, ` + rest + `,
				id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO T VALUES ('keep', 1, 0, 'keep', 100)`,
			Key: []string{"email"}, keys: words, more: `id = 1 + %`, Named: []string{"EMAIL"},
		},
		"composite, with numbers and times": {
			create: `CREATE TABLE T (a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, b DECIMAL(10,2), c DATETIME(3), d DOUBLE, ` + rest + `,
				PRIMARY KEY (c, b, a, d)); INSERT INTO T VALUES ('keep', 0, '2026-01-01', 0, 1, 0, 'keep')`,
			Key: []string{"a", "b", "c", "d"}, keys: `ELT(1 + % DIV 2, 'x', 'X', 'y'), % / 4, TIMESTAMP('2026-02-03 04:05:06.789') + INTERVAL % DIV 3 SECOND, % DIV 3 / 3`,
		},
		"moments": {
			create: `CREATE TABLE T (at TIMESTAMP(6) NOT NULL DEFAULT '2026-01-01' PRIMARY KEY, ` + rest + `); INSERT INTO T VALUES ('2027-01-01', 1, 0, 'keep')`,
			Key:    []string{"at"}, keys: `FROM_UNIXTIME(1761440000 + 1800 * % + 0.000001)`,
		},
		"labels": {
			create: `CREATE TABLE T (e ENUM('small', 'large', 'Straße') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, s SET('a', 'b', 'c'), y YEAR, ` + rest + `,
				PRIMARY KEY (e, s, y)); INSERT INTO T VALUES ('small', 'a,b,c', 1999, 1, 0, 'keep')`,
			Key: []string{"e", "s", "y"}, keys: `ELT(1 + % DIV 2, 'small', 'LARGE', 'straße'), ELT(1 + % DIV 3, 'a', 'b,a'), 2000 + % DIV 4`,
		},
		"bytes": {
			create: `CREATE TABLE T (b VARBINARY(9), n BIGINT UNSIGNED, x BIT(9), ` + rest + `, PRIMARY KEY (n, b, x)); INSERT INTO T VALUES ('keep', 0, 0, 1, 0, 'keep')`,
			Key:    []string{"b", "n", "x"}, keys: `ELT(1 + %, x'00', x'ff00', '', 'a', 'A'), 18446744073709551615 - % DIV 3, % DIV 2`,
		},
		"generated from a document": {
			create: `CREATE TABLE T (id VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci AS (JSON_VALUE(doc, '$.id')) PERSISTENT, ` + rest + `,
				doc JSON, n INT AS (v DIV 2) VIRTUAL, UNIQUE (id)); INSERT INTO T (born, v, tag, doc) VALUES (1, 0, 'keep', '{"id": "keep"}')`,
			Key: []string{"id"}, set: []string{"doc"}, keys: `ELT(1 + %, '{"id":"a"}', '{"id":"A"}', '{"id":"b"}', '{"id":null}', NULL)`,
			Named: []string{"id"},
		},
		"virtual": {
			create: `CREATE TABLE T (half INT AS (id DIV 2) VIRTUAL, ` + rest + `, id INT PRIMARY KEY, UNIQUE (half)); INSERT INTO T (born, v, tag, id) VALUES (1, 0, 'keep', 100)`,
			Key:    []string{"half"}, set: []string{"id"}, keys: `%`, Named: []string{"half"},
		},
		"partitioned": {
			create: `CREATE TABLE T (region VARCHAR(9), id INT, ` + rest + `, PRIMARY KEY (region, id)) PARTITION BY LIST COLUMNS (region)
				(PARTITION a VALUES IN ('a'), PARTITION b VALUES IN ('b', 'c'), PARTITION z VALUES IN ('keep')); INSERT INTO T VALUES ('keep', 0, 1, 0, 'keep')`,
			Key: []string{"region", "id"}, keys: `ELT(1 + % DIV 2, 'a', 'b', 'c'), % DIV 3`,
		},
		"null": {
			create: `CREATE TABLE T (a VARCHAR(9), b INT, ` + rest + `, UNIQUE (a, b)); INSERT INTO T VALUES ('keep', 0, 1, 0, 'keep')`,
			Key:    []string{"a", "b"}, keys: `ELT(%, 'a', 'A', 'b'), NULLIF(% DIV 2, 2)`, Named: []string{"a", "b"},
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
func (k Kind) statement(random *rand.Rand) string {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	set := k.set
	if set == nil {
		set = k.Key
	}
	columns, keys := strings.Join(set, ", "), func() string { return numbered(random, k.keys) }
	tag := fmt.Sprintf("NULLIF('tag %d', 'tag 0')", random.IntN(few))
	row := func() string { return fmt.Sprintf("(%s, UUID_SHORT(), 0, %s)", keys(), tag) }
	is := func() string { return fmt.Sprintf("(%s) = (%s)", columns, keys()) }
	const others = " AND NOT tag <=> 'keep'"
	more := ""
	if k.more != "" && random.IntN(2) == 0 {
		more = ", " + numbered(random, k.more)
	}
	into := "INTO T (" + columns + ", born, v, tag) "
	values := into + "VALUES " + row()
	if random.IntN(4) == 0 {
		values += ", " + row()
	}
	if random.IntN(8) == 0 {
		selected := row()
		values = into + "SELECT " + selected[1:len(selected)-1] + " FROM T s LIMIT 2"
	}
	switch random.IntN(14) {
	default:
		return "INSERT " + values
	case 0:
		return "INSERT IGNORE " + values
	case 1, 2:
		return "INSERT " + values + " ON DUPLICATE KEY UPDATE v = T.v + 1, tag = IF(T.tag <=> 'keep', T.tag, VALUES(tag))"
	case 3, 4:
		return "REPLACE " + values
	case 5, 6, 7:
		return "UPDATE " + one("", "IGNORE ") + "T SET v = v + 1, tag = " + tag + more + " WHERE " + is() + others
	case 8, 9: // the key, after everything that depends on it
		assign := ""
		if len(set) == 1 {
			assign = ", " + set[0] + " = " + keys()
		} else {
			for i, part := range splitTop(keys()) {
				assign += ", " + set[i] + " = " + part
			}
		}
		return "UPDATE " + one("", "IGNORE ") + "T SET v = v + 1, born = UUID_SHORT()" + assign + " WHERE " + is() + others
	case 10, 11:
		return "DELETE " + one("", "IGNORE ") + "FROM T WHERE " + is() + others
	case 12:
		return one("UPDATE T SET v = v + 1", "UPDATE T a JOIN T b ON a.tag = b.tag SET a.v = a.v + 1", "UPDATE T SET tag = tag")
	case 13:
		return one("DELETE FROM T WHERE TRUE"+others, "DELETE a FROM T a JOIN T b ON a.tag = b.tag WHERE NOT a.tag <=> 'keep'", "DELETE FROM T WHERE TRUE"+others+" LIMIT 1")
	}
}

// splitTop splits a list at the commas outside of parentheses.
func splitTop(list string) (parts []string) {
	depth, begin := 0, 0
	for i, ch := range list {
		switch {
		case ch == '(':
			depth++
		case ch == ')':
			depth--
		case ch == ',' && depth == 0:
			parts, begin = append(parts, list[begin:i]), i+1
		}
	}
	return append(parts, list[begin:])
}

// session returns statements that set a random session of a writer.
func session(random *rand.Rand, formats []string) []string {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL " + one("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE"),
		"SET SESSION time_zone = " + one("'+00:00'", "'+05:45'", "'-03:30'", "'SYSTEM'"),
		"SET SESSION sql_mode = " + one("''", "'ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH'", "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_AUTO_VALUE_ON_ZERO'", "'TRADITIONAL'", "'NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"),
		"SET SESSION binlog_format = " + one(formats...),
		"SET SESSION innodb_lock_wait_timeout = 1",
		"SET SESSION auto_increment_increment = " + one("1", "1", "1", "3"),
	}
}

// Transaction makes a random transaction. It returns an error that no writer of the table may get.
func (k Kind) Transaction(ctx context.Context, conn *sql.Conn, random *rand.Rand) error {
	begin, end := []string{"BEGIN"}, []string{"COMMIT"}
	if random.IntN(8) == 0 {
		end = []string{"ROLLBACK"}
	}
	switch random.IntN(10) {
	case 0:
		begin, end = nil, nil
	case 1:
		id := fmt.Sprintf("'%d'", random.Uint64())
		begin, end = []string{"XA START " + id}, []string{"XA END " + id, "XA PREPARE " + id, "XA " + end[0] + " " + id}
	}
	statements := begin
	for range 1 + random.IntN(4) {
		if random.IntN(5) == 0 {
			statements = append(statements, "SAVEPOINT s", k.statement(random), []string{"RELEASE SAVEPOINT s", "ROLLBACK TO s"}[random.IntN(2)])
		}
		statements = append(statements, k.statement(random))
	}
	for _, statement := range append(statements, end...) {
		_, err := conn.ExecContext(ctx, statement)
		if err != nil && !Refused(err) && !(k.more != "" && strings.Contains(err.Error(), "Error 1467")) { // its own AUTO_INCREMENT was locked
			return fmt.Errorf("%s: %w", statement, err)
		}
		if random.IntN(6) == 0 {
			time.Sleep(time.Duration(random.IntN(int(2 * time.Millisecond))))
		}
	}
	return nil
}

// Refused reports whether a statement has failed for a reason that has nothing to do with the log.
func Refused(err error) bool {
	e := new(driver.MySQLError)
	return errors.As(err, &e) && slices.Contains([]uint16{
		1062, 1205, 1213, // a duplicate, a lock, a deadlock, after which the transaction may be over
		1048, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1526, 1690, 4025, // a value that the table does not take
		1305, 1397, 1398, 1399, 1400, 1401, 1402, 1613, 1614, // a savepoint, or XA, after that
	}, e.Number)
}

const writer = "SETPOINT_TABLE_WRITER" // the address, the database, the kind, a seed, and the formats of the binary log

// WriterMain makes this process a writer of a table, and does not return, if its environment asks for it. It ends when its standard input
// does.
func WriterMain() {
	args := strings.Split(os.Getenv(writer), "\n")
	if len(args) != 5 {
		return
	}
	ended := make(chan struct{})
	go func() { // ends when the parent closes the pipe
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	err := func() error {
		ctx := context.Background()
		db, err := OpenPool(DSN("root", args[0], args[1], ""))
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		seed, _ := strconv.ParseUint(args[3], 10, 64)
		random := rand.New(rand.NewPCG(seed, 1))
		for n := 0; ; n++ {
			conn, err := db.Conn(ctx)
			if err == nil {
				for _, statement := range session(random, strings.Split(args[4], ",")) {
					if err == nil {
						_, err = conn.ExecContext(ctx, statement)
					}
				}
				for range 20 {
					if err == nil {
						err = Kinds()[args[2]].Transaction(ctx, conn, random)
					}
				}
				_ = conn.Raw(func(any) error { return sql.ErrConnDone }) // the next session is another one
				_ = conn.Close()
			}
			if e := new(driver.MySQLError); errors.As(err, &e) && e.Number != 1053 && e.Number != 1927 { // otherwise the server is gone
				return err
			}
			select {
			case <-ended:
				return nil
			default:
			}
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// StartWriters starts processes that write the table T of a kind. Each session takes one of the formats of the binary log.
func StartWriters(t testing.TB, n int, addr, database, kind string, seed uint64, formats ...string) *dbtest.Processes {
	t.Helper()
	return dbtest.StartProcesses(t, n, writer, func(process uint64) string {
		return fmt.Sprintf("%s\n%s\n%s\n%d\n%s", addr, database, kind, process*100+seed, strings.Join(formats, ","))
	})
}
