package database

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/envelope"
	"github.com/setpoint-go/setpoint/store/backend"
)

// User is the actor of the writes of the user.
const User = "user"

// Change is one commit.
type Change struct {
	Actor  string
	Kind   string
	Object string // as [Name] returns it
	Record backend.Record

	before *Change // the last one of the object; nil if there was none
}

// Before returns the record that the commit replaced, which is the zero Record if there was none.
func (c *Change) Before() backend.Record {
	if c.before == nil {
		return backend.Record{}
	}
	return c.before.Record
}

// Op returns what the commit did.
func (c *Change) Op() string { return OpOf(c.Before(), c.Record) }

// OpOf returns what a commit does that replaces one record by another: "create", "update", or "delete".
func OpOf(before, after backend.Record) string {
	switch {
	case after.Deleted:
		return "delete"
	case before.Version == 0 || before.Deleted:
		return "create"
	case deleting(after) && !deleting(before):
		return "delete"
	default:
		return "update"
	}
}

// DB is the real state: a log of commits. Version v is the state after the first v of them.
//
// Its methods may be called by several goroutines concurrently.
type DB struct {
	backend.Kinds

	mu sync.Mutex
	// mu guards the following.
	log   []*Change
	now   map[string]*Change          // the last change of each object, by its name
	terms map[string]uint64           // of each lease, the greatest that was accepted
	lasts map[string]informer.Version // of each kind
}

// New returns an empty database.
func New() *DB {
	return &DB{now: make(map[string]*Change), terms: make(map[string]uint64), lasts: make(map[string]informer.Version)}
}

// Name returns the name of an object in plans and timelines.
func Name(kind, key string) string { return kind + "/" + key }

// Version returns the current version.
func (db *DB) Version() informer.Version {
	db.mu.Lock()
	defer db.mu.Unlock()
	return informer.Version(len(db.log))
}

// Get returns the current record, or a tombstone, or the zero Record.
func (db *DB) Get(kind, key string) backend.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	if c := db.now[Name(kind, key)]; c != nil {
		return c.Record
	}
	return backend.Record{}
}

// Check returns an error if the term of a fence is over.
func (db *DB) Check(fences []backend.Fence) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, f := range fences {
		if err := f.Check(db.terms[f.Lease]); err != nil {
			return err
		}
	}
	return nil
}

// Accept records the terms of an accepted write.
func (db *DB) Accept(fences []backend.Fence) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, f := range fences {
		db.terms[f.Lease] = max(db.terms[f.Lease], f.Term)
	}
}

// Commit replaces the current record by next.
func (db *DB) Commit(actor, kind, key string, next backend.Record) *Change {
	db.mu.Lock()
	defer db.mu.Unlock()
	name := Name(kind, key)
	next.Key, next.Version = key, informer.Version(len(db.log)+1)
	c := &Change{Actor: actor, Kind: kind, Object: name, Record: next, before: db.now[name]}
	db.log = append(db.log, c)
	db.now[name] = c
	db.lasts[kind] = next.Version
	return c
}

// Last returns the version of the last change of a kind.
func (db *DB) Last(kind string) informer.Version {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.lasts[kind]
}

// At returns the records of a kind as they were at a version, in order of key.
func (db *DB) At(v informer.Version, kind string) []backend.Record {
	there := make(map[string]*Change)
	for _, c := range db.After(0, v) {
		switch {
		case c.Kind != kind:
		case c.Record.Deleted:
			delete(there, c.Record.Key)
		default:
			there[c.Record.Key] = c
		}
	}
	if len(there) == 0 {
		return nil
	}
	records := make([]backend.Record, 0, len(there))
	for _, key := range slices.Sorted(maps.Keys(there)) {
		records = append(records, there[key].Record)
	}
	return records
}

// After returns the commits after a version, up to another.
func (db *DB) After(v, upTo informer.Version) []*Change {
	db.mu.Lock()
	defer db.mu.Unlock()
	if v >= upTo {
		return nil
	}
	return db.log[v:upTo:upTo]
}

// All returns the name and the record of every object that exists, in order of name.
func (db *DB) All() iter.Seq2[string, backend.Record] {
	db.mu.Lock()
	names := slices.Sorted(maps.Keys(db.now))
	now := make([]backend.Record, len(names))
	for i, name := range names {
		now[i] = db.now[name].Record
	}
	db.mu.Unlock()
	return func(yield func(string, backend.Record) bool) {
		for i, name := range names {
			if !now[i].Deleted && !yield(name, now[i]) {
				return
			}
		}
	}
}

// Changes returns the last change of each object that exists at a version, by name.
func (db *DB) Changes(at informer.Version) map[string]*Change {
	there := make(map[string]*Change)
	for _, c := range db.After(0, at) {
		if c.Record.Deleted {
			delete(there, c.Object)
		} else {
			there[c.Object] = c
		}
	}
	return there
}

// List yields the records that q selects at a version, as one page.
func (db *DB) List(v informer.Version, kind string, q backend.Query) backend.Page {
	page := backend.Page{Version: v}
	for _, r := range db.At(v, kind) {
		if q.Matches(r.Key, r.Labels) {
			page.Records = append(page.Records, r)
		}
	}
	return page
}

// Capabilities returns what a handle of the database can do.
func (db *DB) Capabilities() backend.Capabilities { return backend.Capabilities{} }

// EnvelopeOf returns the envelope of a record.
func EnvelopeOf(r backend.Record) envelope.Envelope {
	e, _ := envelope.Decode(r.Meta) // the engine wrote it
	return e
}

func deleting(r backend.Record) bool {
	return Says(r, "deleting") && r.Version != 0
}

// Says reports whether the envelope of a record has a field. It is much faster than decoding, and most have none of them. Within a text, the
// quotes would be escaped.
func Says(r backend.Record, field string) bool {
	return bytes.Contains(r.Meta, []byte(`"`+field+`":`))
}
