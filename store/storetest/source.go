package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// sourceCases are those of informertest: every store is a source. Changes are made through all handles in turn, and the first one is
// watched.
func sourceCases() []testCase {
	var all []testCase
	for _, c := range informertest.Cases[object]() {
		all = append(all, testCase{"as a source, " + c.Name, func(t testing.TB, db Database) { c.Run(t, db.subject()) }})
	}
	return all
}

// overwrite writes the value of a record past the store, as another program does.
func (db Database) overwrite(ctx context.Context, kind, key string, value []byte) error {
	_, err := db.Handles[0].Transact(ctx, kind, key, nil, func(have backend.Record) (*backend.Record, error) {
		if have.Version == 0 || have.Deleted {
			have = backend.Record{Meta: fmt.Appendf(nil, `{"uid":"of %s","generation":1,"created":"2024-01-01T00:00:00Z"}`, key)}
		}
		have.Meta = bytes.Replace(have.Meta, []byte(`,"new":true`), nil, 1) // this write is no creation
		have.Key, have.Before, have.Value = key, nil, value
		return &have, nil
	})
	return err
}

// subject is db as a source.
func (db Database) subject() informertest.Subject[object] {
	const kind = "thing"
	ctx := context.Background()
	put := func(ctx context.Context, name string, rev int) error {
		s := db.through(rev, kind)
		for {
			o, err := s.Get(ctx, name)
			switch {
			case errors.Is(err, store.ErrNotFound):
				_, err = s.Create(ctx, object{Key: name, Value: Thing{Size: rev}})
			case errors.Is(err, store.ErrDecode):
				return db.overwrite(ctx, kind, name, fmt.Appendf(nil, `{"Size":%d}`, rev))
			case err == nil:
				o.Value.Size = rev
				_, err = s.Update(ctx, o)
			}
			if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) {
				return err
			}
		}
	}
	remove := func(ctx context.Context, name string) error {
		return errOf(db.through(len(name), kind).Delete(ctx, name))
	}
	apply := func(c informertest.Change) func(context.Context) error {
		return func(ctx context.Context) error {
			if c.Delete {
				return remove(ctx, c.Name)
			}
			return put(ctx, c.Name, c.Rev)
		}
	}
	others, n := db.through(1, "other"), 0
	s := informertest.Subject[object]{
		Source:  db.open(kind),
		Put:     func(name string, rev int) error { return put(ctx, name, rev) },
		Delete:  func(name string) error { return remove(ctx, name) },
		Spoil:   func(name string) error { return db.overwrite(ctx, kind, name, []byte("{")) },
		Read:    func(o object) (string, int) { return o.Key, o.Value.Size },
		History: db.Remembers,
		Bookmark: func() error {
			n++
			_, err := others.Create(ctx, object{Key: fmt.Sprint(n)})
			return err
		},
	}
	if db.Expire != nil {
		s.Expire = func() error { return db.Expire(kind) }
	}
	if db.Overlap != nil {
		s.Overlap = func(first, second informertest.Change, look func()) error {
			return db.Overlap(apply(first), apply(second), look)
		}
	}
	return s
}
