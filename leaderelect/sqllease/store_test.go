package sqllease_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/retry"
)

var errNetwork = errors.New("connection reset")

func newStore(t testing.TB, cfg sqllease.Config) (*server, *sqllease.Store) {
	t.Helper()
	server, db := open(t)
	s, err := sqllease.New(db, cfg)
	require.NoError(t, err)
	return server, s
}

func TestStoreConformsToLeaseStore(t *testing.T) {
	for _, dialect := range []sqllease.Dialect{sqllease.Postgres, sqllease.MySQL} {
		t.Run(dialect.String(), func(t *testing.T) {
			leasetest.Run(t, func(t *testing.T) leasetest.Backend {
				server, db := open(t)
				s, err := sqllease.New(db, sqllease.Config{Dialect: dialect})
				require.NoError(t, err)
				return leasetest.Backend{
					Store: s,
					Reopen: func() leaderelect.LeaseStore {
						other, err := sqllease.New(db, sqllease.Config{Dialect: dialect})
						require.NoError(t, err)
						return other
					},
					Delete: func(key string) {
						server.mu.Lock()
						defer server.mu.Unlock()
						delete(server.rows, sqllease.NameOf(key))
					},
					CutReply: func() {
						server.after = func(string) error {
							server.after = nil
							return errNetwork
						}
					},
				}
			})
		})
	}
}

func TestMySQLKeyTooLongForColumnIsAnError(t *testing.T) {
	server, s := newStore(t, sqllease.Config{Dialect: sqllease.MySQL})
	longest := strings.Repeat(`\`, 666) + "ä" // a backslash makes three bytes
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: longest})
	require.NoError(t, err)
	server.log = nil
	_, err = s.Create(t.Context(), leaderelect.Entry{Key: longest + "a"})
	require.ErrorContains(t, err, "the key makes a name of 2001 bytes, must be at most 2000")
	require.True(t, retry.IsPermanent(err))
	_, err = s.Get(t.Context(), longest+"a")
	require.ErrorContains(t, err, "2001 bytes")
	require.ErrorContains(t, s.GuardTerm(t.Context(), nil, longest+"a", 1), "2001 bytes")
	require.Empty(t, server.log, "a column that is too short may cut it off")
}

func TestWriteSentTwiceIsAppliedOnce(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	twice := func() {
		server.after = func(string) error {
			server.after = nil
			return driver.ErrBadConn // database/sql sends the statement again
		}
	}
	twice()
	first, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 1})
	require.NoError(t, err)
	got, err := s.Get(ctx, "lease")
	require.NoError(t, err)
	assert.Equal(t, first, got)

	twice()
	second, err := s.Update(ctx, first)
	require.NoError(t, err)
	assert.NotEqual(t, first.Version, second.Version)

	twice()
	_, err = s.Update(ctx, first)
	require.ErrorIs(t, err, leaderelect.ErrConflict)
	twice()
	_, err = s.Create(ctx, first)
	require.ErrorIs(t, err, leaderelect.ErrConflict)
}

func TestAmbiguousConflictIsNotDefinite(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	server.before = func(query string) error {
		if strings.Contains(query, "count(*)") {
			return errNetwork
		}
		return nil
	}
	_, err := s.Update(ctx, leaderelect.Entry{Key: "lease"})
	require.ErrorIs(t, err, errNetwork)
	assert.NotErrorIs(t, err, leaderelect.ErrConflict)
}

func TestTermTooLargeForColumnIsAnError(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	_, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: math.MaxInt64 + 1})
	require.EqualError(t, err, `sqllease: create "lease": term 9223372036854775808 is greater than 9223372036854775807`)
	assert.NotErrorIs(t, err, leaderelect.ErrConflict)
	assert.Empty(t, server.log)
}

func TestNegativeTermIsNotHuge(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	server.rows["lease"] = []driver.Value{"lease", int64(-1), "v", []byte("{}")}
	_, err := s.Get(t.Context(), "lease")
	require.EqualError(t, err, `sqllease: get "lease": term -1 is negative`)
	_, err = s.List(t.Context(), "le")
	require.EqualError(t, err, `sqllease: list "le": "lease": term -1 is negative`)
	list, err := s.List(t.Context(), "other")
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestForeignRowIsSkipped(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	_, err := s.Create(ctx, leaderelect.Entry{Key: `a\b`})
	require.NoError(t, err)
	for _, name := range []string{`a\`, `a\4`, `a\61`, `a\5C`, `a\zz`} {
		server.rows[name] = []driver.Value{name, int64(1), "v", []byte{}}
	}
	list, err := s.List(ctx, "a")
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, `a\b`, list[0].Key)
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, table := range []string{"Leases", "a b", `a"b`, "1a", "a.b.c", "a.", ".a", "a;b", "ä"} {
		_, err := sqllease.New(nil, sqllease.Config{Table: table})
		assert.ErrorContains(t, err, "sqllease: new store: Config.Table is", table)
	}
	for _, table := range []string{"a", "_a1", "ops.leases", ""} {
		_, err := sqllease.New(nil, sqllease.Config{Table: table})
		assert.NoError(t, err, table)
	}
	_, err := sqllease.New(nil, sqllease.Config{Dialect: 7})
	assert.ErrorContains(t, err, "sqllease: new store: Config.Dialect is Dialect(7), must be")
}

func TestStatementsUseDialect(t *testing.T) {
	postgres, err := sqllease.New(nil, sqllease.Config{Table: "ops.leases"})
	require.NoError(t, err)
	assert.Equal(t, `SELECT 1 FROM "ops"."leases" WHERE name = $1 AND term = $2 FOR KEY SHARE`, postgres.GuardQuery())
	sqlite, err := sqllease.New(nil, sqllease.Config{Dialect: sqllease.SQLite})
	require.NoError(t, err)
	assert.Equal(t, `UPDATE "leases" SET term = term WHERE name = ?1 AND term = ?2 RETURNING 1`, sqlite.GuardQuery())
	assert.Contains(t, sqlite.DDL(), "value   blob")
	mysql, err := sqllease.New(nil, sqllease.Config{Dialect: sqllease.MySQL, Table: "ops.leases"})
	require.NoError(t, err)
	assert.Equal(t, "SELECT 1 FROM `ops`.`leases` IGNORE INDEX (PRIMARY) WHERE name = ? AND term = ? LOCK IN SHARE MODE", mysql.GuardQuery())
	assert.Contains(t, mysql.DDL(), "CREATE TABLE IF NOT EXISTS `ops`.`leases` (\n\tname    varbinary(2000) NOT NULL PRIMARY KEY,")
}

func FuzzKeysHaveDistinctNames(f *testing.F) {
	for _, key := range []string{"", "a", `a\`, `\00`, `\zz`, "\x00", "ä", "\xc3", "\xc3\xa4\xc3", "日本\xff", "\xf0\x9f\x98"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		name := sqllease.NameOf(key)
		require.True(t, utf8.ValidString(name) && !strings.ContainsRune(name, 0), "%q", name)
		back, ok := sqllease.KeyOf(name)
		require.True(t, ok)
		require.Equal(t, key, back)
		for i := range len(key) + 1 {
			if i > 32 && i < len(key)-32 {
				continue // a prefix costs its length, so all of them together would cost the square of the key's
			}
			require.True(t, strings.HasPrefix(name, sqllease.PrefixOf(key[:i])), "prefix %q of %q", key[:i], key)
		}
		if back, ok := sqllease.KeyOf(key); ok {
			require.Equal(t, key, sqllease.NameOf(back), "two names have one key")
		}
	})
}
