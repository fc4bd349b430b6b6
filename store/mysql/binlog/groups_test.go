package binlog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/store/mysql/binlog"
)

func TestStatementsAreJudged(t *testing.T) {
	const statement, list = "statement", "list"
	for _, c := range []struct{ database, table, in, text, want string }{
		{"shop", "sites", "shop", "BEGIN", ""},
		{"shop", "sites", "shop", "COMMIT", ""},
		{"shop", "sites", "shop", "SAVEPOINT `sites`", ""},
		{"shop", "sites", "shop", "ROLLBACK TO `sites`", ""},
		{"shop", "sites", "", "XA START X'31',X'',1", ""},
		{"shop", "sites", "", "XA ROLLBACK X'31',X'',1", ""},
		{"shop", "sites", "", "XA COMMIT X'31',X'',1", list}, // of a transaction that nobody knows
		{"shop", "sites", "shop", "insert into sites values (1)", statement},
		{"shop", "sites", "other", "/* x */ UPDATE t SET a = 1", statement},
		{"shop", "sites", "other", "# x\n-- y\nDELETE FROM t", statement},
		{"shop", "sites", "other", "WITH a AS (SELECT 1) SELECT f(a)", statement},
		{"shop", "sites", "other", "SET STATEMENT max_statement_time=1 FOR REPLACE INTO t VALUES (1)", statement},
		{"shop", "sites", "other", "SET PASSWORD FOR 'a'@'%'='x'", ""},
		{"shop", "sites", "shop", "TRUNCATE sites", list},
		{"shop", "sites", "shop", "TRUNCATE TABLE`sites`", list},
		{"shop", "sites", "shop", "truncate Sites", list},
		{"shop", "sites", "shop", `ALTER TABLE "sites" ADD a INT`, list},
		{"shop", "sites", "shop", "ALTER TABLE shop.sites ADD a INT", list},
		{"shop", "sites", "other", "ALTER TABLE shop.sites ADD a INT", list},
		{"shop", "sites", "other", "ALTER TABLE `shop`.`sites` ADD a INT", list},
		{"shop", "sites", "other", "ALTER TABLE sites ADD a INT", ""},
		{"shop", "sites", "shop", "ALTER TABLE websites ADD a INT", ""},
		{"shop", "sites", "shop", "ALTER TABLE sites_old ADD a INT", ""},
		{"shop", "sites", "shop", "RENAME TABLE a TO b, sites TO c", list},
		{"shop", "sites", "shop", "/*!40000 ALTER TABLE sites DISABLE KEYS */", list},
		{"shop", "sites", "shop", "ALTER TABLE sítes ADD a INT", ""},
		{"shop", "sites", "shop", "ALTER TABLE x\xff ADD a INT", list}, // in another character set, which may be the name
		{"shop", "sites", "shop", "DROP DATABASE shop", list},
		{"shop", "sites", "", "DROP DATABASE IF EXISTS `shop`", list},
		{"shop", "sites", "", "DROP DATABASE shops", ""},
		{"shop", "sites", "shop", "GRANT SELECT ON sites TO a", ""},
		{"shop", "sites", "shop", "# Dummy event replacing event type 160 that slave cannot handle.", ""},
		{"shop", "we`ird", "shop", "TRUNCATE `we``ird`", list},
		{"shop", "two words", "shop", "TRUNCATE `two words`", list},
		{"shop", "two words", "shop", "TRUNCATE `two`", ""},
	} {
		assert.Equal(t, c.want, binlog.Judge(c.database, c.table, c.in, c.text), c.text)
	}
}

func TestVersionsAreInOrderOfPlaces(t *testing.T) {
	last := binlog.Version(0, 4, 0)
	for _, file := range []uint64{1, 2, 999_999, 1<<20 - 1} {
		for _, offset := range []uint64{4, 256, 1 << 20, 1<<32 - 1} {
			for _, mark := range []uint64{0, 1, 1<<12 - 1} {
				v := binlog.Version(file, offset, mark)
				assert.Greater(t, v, last)
				last = v
				f, o, m := binlog.Place(v)
				assert.Equal(t, []uint64{file, offset, mark}, []uint64{f, o, m})
			}
		}
	}
	assert.NoError(t, binlog.ParsePosition("log.000001", 1<<32-1))
	assert.ErrorContains(t, binlog.ParsePosition("log.000001", 1<<32), "nor files of 4 GB")
	assert.ErrorContains(t, binlog.ParsePosition("log.1048576", 4), "must not have more than 1048575 files")
	assert.ErrorContains(t, binlog.ParsePosition("log", 4), `the file "log" of the binary log has no number`)
}
