//go:build linux

package tabletest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// Entry is a row of a table of any kind.
type Entry struct {
	Key, Tag string
	Born     uint64
	V        int64
}

// Scan reads a row.
func (k Kind) Scan(row interface{ Scan(dest ...any) error }) (e Entry, err error) {
	values := make([]sql.NullString, len(k.Key))
	var dest []any
	for i := range values {
		dest = append(dest, &values[i])
	}
	var tag sql.NullString
	if err := row.Scan(append(dest, &e.Born, &e.V, &tag)...); err != nil {
		return e, err
	}
	for _, v := range values {
		e.Key += fmt.Sprintf("%q/", v.String)
	}
	e.Tag = tag.String
	return e, nil
}

// Rows reads the table, with a query of the test.
func (k Kind) Rows(ctx context.Context, db *sql.DB) (map[string]Entry, error) {
	rows, err := db.QueryContext(ctx, `SELECT `+strings.Join(k.Key, ", ")+`, born, v, tag FROM T WHERE `+strings.Join(k.Key, " IS NOT NULL AND ")+` IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	found := map[string]Entry{}
	for rows.Next() {
		e, err := k.Scan(rows)
		if err != nil {
			return nil, err
		}
		found[e.Key] = e
	}
	return found, rows.Err()
}

// Mirror is an informer of a table, and what its handler has seen.
type Mirror struct {
	inf *informer.Informer[string, Entry]

	mu sync.Mutex
	// mu guards the following.
	last  map[string]Entry
	dead  map[string]bool // the key and the born of a row that was replaced
	lists int
	ends  []string // errors of watches
	wrong []string
}

// NewMirror runs an informer of a source until the test ends.
func NewMirror(t testing.TB, source informer.ListWatcher[Entry]) *Mirror {
	t.Helper()
	m := &Mirror{last: map[string]Entry{}, dead: map[string]bool{}}
	var err error
	m.inf, err = informer.New(counted{source, m}, func(e Entry) string { return e.Key }, informer.Config{OnError: func(err error) {
		m.mu.Lock()
		m.ends = append(m.ends, err.Error())
		m.mu.Unlock()
	}})
	if err != nil {
		t.Fatal(err)
	}
	saw := func(e Entry) {
		m.mu.Lock()
		defer m.mu.Unlock()
		before, ok := m.last[e.Key]
		id := fmt.Sprint(e.Key, e.Born)
		switch {
		case m.dead[id]:
			m.wrong = append(m.wrong, fmt.Sprintf("%v comes back after %v", e, before))
		case ok && before.Born == e.Born && e.V < before.V:
			m.wrong = append(m.wrong, fmt.Sprintf("%v goes back to %v", before, e))
		case ok && before.Born != e.Born:
			m.dead[fmt.Sprint(before.Key, before.Born)] = true
		}
		m.last[e.Key] = e
	}
	_, err = m.inf.AddHandler(informer.Handler[string, Entry]{
		EveryEvent: true,
		OnAdd:      func(e Entry, _ bool) { saw(e) },
		OnUpdate:   func(_, e Entry) { saw(e) },
		OnDelete: func(e cache.Tombstone[string, Entry]) {
			if e.Object.Tag == "keep" {
				m.complain("the row that nobody deletes was deleted")
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	loop := looptest.StartIn(context.WithoutCancel(t.Context()), t, m.inf.Run)
	t.Cleanup(func() {
		if err := loop.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *Mirror) complain(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// Compare waits until the cache has everything, and compares it with the table. Nobody may write. delay says what delays the cache.
func (m *Mirror) Compare(ctx context.Context, k Kind, db *sql.DB, source informer.Versioner, patience time.Duration, delay func() string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := source.LatestVersion(ctx)
	if err != nil {
		return err
	}
	if err := m.inf.WaitForVersion(ctx, v); err != nil {
		why := delay()
		m.mu.Lock()
		defer m.mu.Unlock()
		return fmt.Errorf("%w: %v %v %s", err, m.wrong, m.ends, why)
	}
	want, err := k.Rows(ctx, db)
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

// Lists returns how often the informer has listed, and the errors of its watches.
func (m *Mirror) Lists() (n int, ends []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists, slices.Clone(m.ends)
}

// counted counts the lists of a source.
type counted struct {
	informer.ListWatcher[Entry]
	m *Mirror
}

func (c counted) List(ctx context.Context) (informer.List[Entry], error) {
	c.m.mu.Lock()
	c.m.lists++
	c.m.mu.Unlock()
	return c.ListWatcher.List(ctx)
}

// EndPrepared ends the transactions that killed writers have prepared.
func EndPrepared(t testing.TB, db *sql.DB) {
	t.Helper()
	rows, err := db.Query("XA RECOVER")
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); { // a connection of before a restart may be broken
		time.Sleep(10 * time.Millisecond)
		rows, err = db.Query("XA RECOVER")
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for rows.Next() {
		var format, global, branch int
		var id string
		if err := rows.Scan(&format, &global, &branch, &id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids { // some may be of writers that are alive
		_, err := db.Exec([]string{"XA COMMIT '", "XA ROLLBACK '"}[i%2] + id + "'")
		if err != nil && !Refused(err) {
			t.Fatal(err)
		}
	}
}

// CreateIn creates the table T, in the default database of db.
func (k Kind) CreateIn(t testing.TB, db *sql.DB) {
	t.Helper()
	for statement := range strings.SplitSeq(k.create, ";\n") {
		for part := range strings.SplitSeq(statement, "; INSERT") {
			if !strings.HasPrefix(strings.TrimSpace(part), "CREATE") && !strings.HasPrefix(strings.TrimSpace(part), "INSERT") {
				part = "INSERT" + part
			}
			if _, err := db.Exec(part); err != nil {
				t.Fatal(part, err)
			}
		}
	}
}

// Columns are the columns that Scan reads.
func (k Kind) Columns() []string { return append(slices.Clone(k.Key), "born", "v", "tag") }
