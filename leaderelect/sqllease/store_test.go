package sqllease_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

var errNetwork = errors.New("connection reset")

func newStore(t testing.TB, cfg sqllease.Config) (*server, *sqllease.Store) {
	t.Helper()
	server, db := open(t)
	s, err := sqllease.New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return server, s
}

func TestStoreConformsToLeaseStore(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		server, db := open(t)
		s, err := sqllease.New(db, sqllease.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return leasetest.Backend{
			Store: s,
			Reopen: func() leaderelect.LeaseStore {
				other, err := sqllease.New(db, sqllease.Config{})
				if err != nil {
					t.Fatal(err)
				}
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
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(ctx, "lease")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, got); diff != "" {
		t.Errorf("got mismatch (-want +got):\n%s", diff)
	}

	twice()
	second, err := s.Update(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	if second.Version == first.Version {
		t.Errorf("second.Version = %q, want another", second.Version)
	}

	twice()
	_, err = s.Update(ctx, first)
	if !errors.Is(err, leaderelect.ErrConflict) {
		t.Fatalf("err = %v, want %v", err, leaderelect.ErrConflict)
	}
	twice()
	_, err = s.Create(ctx, first)
	if !errors.Is(err, leaderelect.ErrConflict) {
		t.Fatalf("err = %v, want %v", err, leaderelect.ErrConflict)
	}
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
	if !errors.Is(err, errNetwork) {
		t.Fatalf("err = %v, want %v", err, errNetwork)
	}
	if errors.Is(err, leaderelect.ErrConflict) {
		t.Errorf("err = %v, want another error", err)
	}
}

func TestTermTooLargeForColumnIsAnError(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	_, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: math.MaxInt64 + 1})
	if got, want := fmt.Sprint(err), `sqllease: create "lease": term 9223372036854775808 is greater than 9223372036854775807`; got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	if errors.Is(err, leaderelect.ErrConflict) {
		t.Errorf("err = %v, want another error", err)
	}
	if len(server.log) != 0 {
		t.Errorf("server.log = %v, want none", server.log)
	}
}

func TestNegativeTermIsNotHuge(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	server.rows["lease"] = []driver.Value{"lease", int64(-1), "v", []byte("{}")}
	_, err := s.Get(t.Context(), "lease")
	if got, want := fmt.Sprint(err), `sqllease: get "lease": term -1 is negative`; got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	_, err = s.List(t.Context(), "le")
	if got, want := fmt.Sprint(err), `sqllease: list "le": "lease": term -1 is negative`; got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	list, err := s.List(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 0 {
		t.Fatalf("list = %v, want none", list)
	}
}

func TestForeignRowIsSkipped(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	_, err := s.Create(ctx, leaderelect.Entry{Key: `a\b`})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`a\`, `a\4`, `a\61`, `a\5C`, `a\zz`} {
		server.rows[name] = []driver.Value{name, int64(1), "v", []byte{}}
	}
	list, err := s.List(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("len(list) = %d, want 1: %v", len(list), list)
	}
	if list[0].Key != `a\b` {
		t.Errorf("list[0].Key = %q, want %q", list[0].Key, `a\b`)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, table := range []string{"Leases", "a b", `a"b`, "1a", "a.b.c", "a.", ".a", "a;b", "ä"} {
		_, err := sqllease.New(nil, sqllease.Config{Table: table})
		if got, want := fmt.Sprint(err), "sqllease: new store: Config.Table is"; !strings.Contains(got, want) {
			t.Errorf("%v: err = %q, want an error that contains %q", table, got, want)
		}
	}
	for _, table := range []string{"a", "_a1", "ops.leases", ""} {
		_, err := sqllease.New(nil, sqllease.Config{Table: table})
		if err != nil {
			t.Errorf("%v: %v", table, err)
		}
	}
	_, err := sqllease.New(nil, sqllease.Config{Dialect: 7})
	if got, want := fmt.Sprint(err), "sqllease: new store: Config.Dialect is Dialect(7), must be"; !strings.Contains(got, want) {
		t.Errorf("err = %q, want an error that contains %q", got, want)
	}
}

func TestStatementsUseDialect(t *testing.T) {
	postgres, err := sqllease.New(nil, sqllease.Config{Table: "ops.leases"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := postgres.GuardQuery(), `SELECT 1 FROM "ops"."leases" WHERE name = $1 AND term = $2 FOR KEY SHARE`; got != want {
		t.Errorf("postgres.GuardQuery() = %q, want %q", got, want)
	}
	sqlite, err := sqllease.New(nil, sqllease.Config{Dialect: sqllease.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sqlite.GuardQuery(), `UPDATE "leases" SET term = term WHERE name = ?1 AND term = ?2 RETURNING 1`; got != want {
		t.Errorf("sqlite.GuardQuery() = %q, want %q", got, want)
	}
	if got := sqlite.DDL(); !strings.Contains(got, "value   blob") {
		t.Errorf("sqlite.DDL() = %q, want it to contain %q", got, "value   blob")
	}
}

func FuzzKeysHaveDistinctNames(f *testing.F) {
	for _, key := range []string{"", "a", `a\`, `\00`, "\x00", "ä", "\xc3", "\xc3\xa4\xc3", "日本\xff", "\xf0\x9f\x98"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		name := sqllease.NameOf(key)
		if !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
			t.Fatalf("%q is no text for a database", name)
		}
		back, ok := sqllease.KeyOf(name)
		if !ok {
			t.Fatal("ok is false")
		}
		if back != key {
			t.Fatalf("back = %q, want %q", back, key)
		}
		for i := range len(key) + 1 {
			if i > 32 && i < len(key)-32 {
				continue // a prefix costs its length, so all of them together would cost the square of the key's
			}
			if !strings.HasPrefix(name, sqllease.PrefixOf(key[:i])) {
				t.Fatalf("%q, of key %q, does not begin with the prefix of %q", name, key, key[:i])
			}
		}
		if back, ok := sqllease.KeyOf(key); ok {
			if got := sqllease.NameOf(back); got != key {
				t.Fatalf("two names have one key: sqllease.NameOf(back) = %q, want %q", got, key)
			}
		}
	})
}
