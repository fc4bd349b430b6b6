package simtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// change is one commit.
type change struct {
	actor  string
	kind   string
	record backend.Record
	before backend.Record // the zero Record if there was none
}

// object returns what a plan and a timeline call the object.
func (c change) object() string { return c.kind + "/" + c.record.Key }

// op returns what the commit did.
func (c change) op() string { return opOf(c.before, c.record) }

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

// database is the truth: a log of commits. Version v is the state after the first v of them.
//
// Its methods may be called by several goroutines concurrently.
type database struct {
	backend.Kinds

	mu sync.Mutex
	// mu guards the following.
	log   []change
	now   map[string]backend.Record   // by kind and key, with tombstones
	terms map[string]uint64           // of each lease, the greatest that was accepted
	lasts map[string]informer.Version // of each kind
}

func newDatabase() *database {
	return &database{now: make(map[string]backend.Record), terms: make(map[string]uint64), lasts: make(map[string]informer.Version)}
}

func nameOf(kind, key string) string { return kind + "/" + key }

func (db *database) version() informer.Version {
	db.mu.Lock()
	defer db.mu.Unlock()
	return informer.Version(len(db.log))
}

func (db *database) get(kind, key string) backend.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.now[nameOf(kind, key)]
}

// check returns an error if a fence is of a term that is over.
func (db *database) check(fences []backend.Fence) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, f := range fences {
		if err := f.Check(db.terms[f.Lease]); err != nil {
			return err
		}
	}
	return nil
}

// accept records the terms of an accepted write.
func (db *database) accept(fences []backend.Fence) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, f := range fences {
		db.terms[f.Lease] = max(db.terms[f.Lease], f.Term)
	}
}

// commit replaces the present record by next.
func (db *database) commit(actor, kind, key string, next backend.Record) change {
	db.mu.Lock()
	defer db.mu.Unlock()
	name := nameOf(kind, key)
	next.Key, next.Version = key, informer.Version(len(db.log)+1)
	c := change{actor: actor, kind: kind, record: next, before: db.now[name]}
	db.log = append(db.log, c)
	db.now[name] = next
	db.lasts[kind] = next.Version
	return c
}

// last returns the version of the last change of a kind.
func (db *database) last(kind string) informer.Version {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.lasts[kind]
}

// at returns the records of a kind as they were at a version, in order of key.
func (db *database) at(v informer.Version, kind string) []backend.Record {
	db.mu.Lock()
	defer db.mu.Unlock()
	records := make(map[string]backend.Record)
	for _, c := range db.log[:v] {
		if c.kind != kind {
			continue
		}
		if c.record.Deleted {
			delete(records, c.record.Key)
		} else {
			records[c.record.Key] = c.record
		}
	}
	return slices.SortedFunc(maps.Values(records), func(a, b backend.Record) int { return strings.Compare(a.Key, b.Key) })
}

// after returns the commits after a version, up to another.
func (db *database) after(v, upTo informer.Version) []change {
	db.mu.Lock()
	defer db.mu.Unlock()
	if v >= upTo {
		return nil
	}
	return db.log[v:upTo:upTo]
}

// all returns the name and the record of everything that is there, in order of name.
func (db *database) all() iter.Seq2[string, backend.Record] {
	db.mu.Lock()
	now := maps.Clone(db.now)
	db.mu.Unlock()
	return func(yield func(string, backend.Record) bool) {
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if r := now[name]; !r.Deleted && !yield(name, r) {
				return
			}
		}
	}
}

// changes returns the last change of each object that is there at a version, by name.
func (db *database) changes(at informer.Version) map[string]change {
	there := make(map[string]change)
	for _, c := range db.after(0, at) {
		if c.record.Deleted {
			delete(there, c.object())
		} else {
			there[c.object()] = c
		}
	}
	return there
}

// list yields the records that q selects at a version, as one page.
func (db *database) list(v informer.Version, kind string, q backend.Query) backend.Page {
	page := backend.Page{Version: v}
	for _, r := range db.at(v, kind) {
		if q.Matches(r.Key, r.Labels) {
			page.Records = append(page.Records, r)
		}
	}
	return page
}

// Capabilities returns what a handle of the database can do.
func (db *database) Capabilities() backend.Capabilities { return backend.Capabilities{} }

// envelope is the part of [backend.Record.Meta] that the kit looks at.
type envelope struct {
	UID        string           `json:"uid"`
	Owners     []store.OwnerRef `json:"owners"`
	Finalizers []string         `json:"finalizers"`
	Deleting   string           `json:"deleting"`
}

func envelopeOf(r backend.Record) (e envelope) {
	_ = json.Unmarshal(r.Meta, &e) // the engine wrote it
	return e
}

func deleting(r backend.Record) bool {
	return says(r, "deleting") && r.Version != 0 && envelopeOf(r).Deleting != ""
}

// says reports whether the envelope of a record may have a field. It is much faster than decoding, and most have none of them.
func says(r backend.Record, field string) bool { return bytes.Contains(r.Meta, []byte(`"`+field+`"`)) }

// truth is a handle that no fault hits: that of the user, of Always, and of Goal.
type truth struct {
	*database
	actor  string
	newUID func() string
	commit func(actor, kind, key string, next backend.Record) backend.Record // nil if it only reads
}

// Get implements [backend.Backend].
func (h *truth) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	return h.get(kind, key), nil
}

// List implements [backend.Backend].
func (h *truth) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := context.Cause(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		yield(h.list(h.version(), kind, q), nil)
	}
}

// Watch implements [backend.Backend].
func (h *truth) Watch(context.Context, string, backend.Query, informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		yield(backend.Change{}, fmt.Errorf("simtest: %s does not watch", h.actor))
	}
}

// Transact implements [backend.Backend].
func (h *truth) Transact(
	ctx context.Context, kind, key string, _ []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	have := h.get(kind, key)
	next, err := decide(have)
	switch {
	case err != nil:
		return backend.Record{}, err
	case next == nil:
		return have, nil
	case h.commit == nil:
		return backend.Record{}, fmt.Errorf("simtest: %s only reads", h.actor)
	}
	return h.commit(h.actor, kind, key, *next), nil
}
