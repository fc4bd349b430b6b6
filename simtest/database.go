package simtest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/envelope"
	"github.com/setpoint-go/setpoint/store/backend"
)

// userActor is the actor of the writes of the user.
const userActor = "user"

// change is one commit.
type change struct {
	actor  string
	kind   string
	object string // as objectName returns it
	record backend.Record

	before *change // the last one of the object; nil if there was none
}

// replaced returns the record that the commit replaced, which is the zero Record if there was none.
func (c *change) replaced() backend.Record {
	if c.before == nil {
		return backend.Record{}
	}
	return c.before.record
}

// op returns what the commit did.
func (c *change) op() string { return opOf(c.replaced(), c.record) }

// opOf returns what a commit does that replaces one record by another: "create", "update", or "delete".
func opOf(before, after backend.Record) string {
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

// database is the real state: a log of commits. Version v is the state after the first v of them.
//
// Its methods may be called by several goroutines concurrently.
type database struct {
	backend.Kinds

	mu sync.Mutex
	// mu guards the following.
	log   []*change
	now   map[string]*change          // the last change of each object, by its name
	terms map[string]uint64           // of each lease, the greatest that was accepted
	lasts map[string]informer.Version // of each kind
}

// newDatabase returns an empty database.
func newDatabase() *database {
	return &database{now: make(map[string]*change), terms: make(map[string]uint64), lasts: make(map[string]informer.Version)}
}

// objectName returns the name of an object in plans and timelines.
func objectName(kind, key string) string { return kind + "/" + key }

// version returns the current version.
func (db *database) version() informer.Version {
	db.mu.Lock()
	defer db.mu.Unlock()
	return informer.Version(len(db.log))
}

// hasHad reports whether an object has ever existed.
func (db *database) hasHad(object string) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.now[object] != nil
}

// get returns the current record, or a tombstone, or the zero Record.
func (db *database) get(kind, key string) backend.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	if c := db.now[objectName(kind, key)]; c != nil {
		return c.record
	}
	return backend.Record{}
}

// checkFences returns an error if the term of a fence is over.
func (db *database) checkFences(fences []backend.Fence) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, f := range fences {
		if err := f.Check(db.terms[f.Lease]); err != nil {
			return err
		}
	}
	return nil
}

// acceptFences records the terms of an accepted write.
func (db *database) acceptFences(fences []backend.Fence) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, f := range fences {
		db.terms[f.Lease] = max(db.terms[f.Lease], f.Term)
	}
}

// commit replaces the current record by next.
func (db *database) commit(actor, kind, key string, next backend.Record) *change {
	db.mu.Lock()
	defer db.mu.Unlock()
	name := objectName(kind, key)
	next.Key, next.Version = key, informer.Version(len(db.log)+1)
	c := &change{actor: actor, kind: kind, object: name, record: next, before: db.now[name]}
	db.log = append(db.log, c)
	db.now[name] = c
	db.lasts[kind] = next.Version
	return c
}

// lastOf returns the version of the last change of a kind.
func (db *database) lastOf(kind string) informer.Version {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.lasts[kind]
}

// after returns the commits after a version, up to another.
func (db *database) after(v, upTo informer.Version) []*change {
	db.mu.Lock()
	defer db.mu.Unlock()
	if v >= upTo {
		return nil
	}
	return db.log[v:upTo:upTo]
}

// changesAt returns the last change of each object that exists at a version, by name.
func (db *database) changesAt(at informer.Version) map[string]*change {
	there := make(map[string]*change)
	for _, c := range db.after(0, at) {
		if c.record.Deleted {
			delete(there, c.object)
		} else {
			there[c.object] = c
		}
	}
	return there
}

// list returns the records that q selects at a version, in order of key, as one page.
func (db *database) list(v informer.Version, kind string, q backend.Query) backend.Page {
	there := make(map[string]*change)
	for _, c := range db.after(0, v) {
		switch {
		case c.kind != kind:
		case c.record.Deleted, !q.Matches(c.record.Key, c.record.Labels):
			delete(there, c.record.Key)
		default:
			there[c.record.Key] = c
		}
	}
	page := backend.Page{Version: v, Records: slices.Grow([]backend.Record(nil), len(there))}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		page.Records = append(page.Records, there[key].record)
	}
	return page
}

// Capabilities returns what a handle of the database can do.
func (db *database) Capabilities() backend.Capabilities { return backend.Capabilities{} }

// envelopeOf returns the envelope of a record.
func envelopeOf(r backend.Record) envelope.Envelope {
	e, _ := envelope.Decode(r.Meta) // the engine wrote it
	return e
}

func deleting(r backend.Record) bool {
	return hasField(r, "deleting") && r.Version != 0
}

// hasField reports whether the envelope of a record has a field. It is much faster than decoding, and most have none of them. Within a text, the
// quotes would be escaped.
func hasField(r backend.Record, field string) bool {
	return bytes.Contains(r.Meta, []byte(`"`+field+`":`))
}

// handle is a backend that no fault hits: that of the user, of Always, and of Goal.
type handle struct {
	*database
	actor string
	write func(actor, kind, key string, next backend.Record) (written backend.Record) // nil if the handle only reads
}

// Get implements [backend.Backend].
func (h *handle) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	return h.database.get(kind, key), nil
}

// List implements [backend.Backend].
func (h *handle) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := context.Cause(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		yield(h.database.list(h.version(), kind, q), nil)
	}
}

// Watch implements [backend.Backend].
func (h *handle) Watch(context.Context, string, backend.Query, informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		yield(backend.Change{}, fmt.Errorf("simtest: %s does not watch", h.actor))
	}
}

// Transact implements [backend.Backend].
func (h *handle) Transact(
	ctx context.Context, kind, key string, _ []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	have := h.database.get(kind, key)
	next, err := decide(have)
	switch {
	case err != nil:
		return backend.Record{}, err
	case next == nil:
		return have, nil
	case h.write == nil:
		return backend.Record{}, fmt.Errorf("simtest: %s only reads", h.actor)
	}
	return h.write(h.actor, kind, key, *next), nil
}
