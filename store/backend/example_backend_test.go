package backend_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// tiny is a complete backend: an in-memory log of all writes, which is never compacted. Its lock plays the role of a transaction.
type tiny struct {
	backend.Kinds // has the method Claim

	mu sync.Mutex
	// mu guards the following.
	log   []entry // the version of an entry is its place, counted from 1
	terms map[string]uint64
	more  chan struct{} // closed and replaced by each write
}

type entry struct {
	kind   string
	record backend.Record
}

func newTiny() *tiny { return &tiny{terms: map[string]uint64{}, more: make(chan struct{})} }

func (t *tiny) Capabilities() backend.Capabilities { return backend.Capabilities{} }

func (t *tiny) latestLocked(kind string) map[string]backend.Record {
	latest := map[string]backend.Record{}
	for _, e := range t.log {
		if e.kind == kind {
			latest[e.record.Key] = e.record
		}
	}
	return latest
}

func (t *tiny) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.latestLocked(kind)[key], context.Cause(ctx)
}

func (t *tiny) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		t.mu.Lock()
		page := backend.Page{Version: informer.Version(len(t.log))}
		latest := t.latestLocked(kind)
		t.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(latest)) {
			if r := latest[key]; !r.Deleted && q.Matches(key, r.Labels) {
				page.Records = append(page.Records, r)
			}
		}
		yield(page, context.Cause(ctx))
	}
}

func (t *tiny) Watch(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		at := int(after)
		for ctx.Err() == nil {
			t.mu.Lock()
			news, more := t.log[min(at, len(t.log)):], t.more
			expired := at > len(t.log)
			t.mu.Unlock()
			if expired {
				yield(backend.Change{}, backend.ErrExpired) // that version does not exist yet
				return
			}
			for _, e := range news {
				at++
				change := backend.Change{Version: informer.Version(at)} // a bookmark, if it is about something else
				if e.kind == kind && q.Concern(&e.record) {
					change.Record = e.record
				}
				if !yield(change, nil) {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
			case <-time.After(backend.BookmarkInterval / 2):
				if !yield(backend.Change{Version: informer.Version(at)}, nil) {
					return
				}
			}
		}
		yield(backend.Change{}, context.Cause(ctx))
	}
}

func (t *tiny) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return backend.Record{}, context.Cause(ctx)
	}
	for _, f := range fences {
		if err := f.Check(t.terms[f.Lease]); err != nil {
			return backend.Record{}, err
		}
	}
	have := t.latestLocked(kind)[key]
	next, err := decide(have)
	if err != nil {
		return backend.Record{}, err
	}
	for _, f := range fences {
		t.terms[f.Lease] = max(t.terms[f.Lease], f.Term)
	}
	if next == nil {
		return have, nil
	}
	r := *next
	r.Key, r.Version = key, informer.Version(len(t.log)+1)
	t.log = append(t.log, entry{kind, r})
	close(t.more)
	t.more = make(chan struct{})
	return r, nil
}

// A backend in a hundred lines. Give it to store.Open; here it is called as the engine does.
func ExampleBackend() {
	ctx := context.Background()
	var db backend.Backend = newTiny()
	set := func(value string) backend.Decide {
		return func(have backend.Record) (*backend.Record, error) {
			if string(have.Value) == value {
				return nil, nil // nothing to write
			}
			return &backend.Record{Meta: []byte("{}"), Value: []byte(value)}, nil
		}
	}
	for _, value := range []string{`"one"`, `"one"`, `"two"`} {
		r, err := db.Transact(ctx, "app", "web", nil, set(value))
		fmt.Println(r.Version, string(r.Value), err)
	}
	for change := range db.Watch(ctx, "app", backend.Query{}, 0) {
		fmt.Println("change", change.Version, string(change.Record.Value))
		if change.Version == 2 {
			break
		}
	}
	for page := range db.List(ctx, "app", backend.Query{Prefix: "w"}) {
		fmt.Println("list", page.Version, len(page.Records))
	}
	// Output:
	// 1 "one" <nil>
	// 1 "one" <nil>
	// 2 "two" <nil>
	// change 1 "one"
	// change 2 "two"
	// list 2 1
}

// A term that is over is refused before anything is decided. Another lease has terms of its own.
func ExampleFence() {
	ctx, db := context.Background(), newTiny()
	write := func(lease string, term uint64) error {
		_, err := db.Transact(ctx, "app", "web", []backend.Fence{{Lease: lease, Term: term}},
			func(have backend.Record) (*backend.Record, error) { return nil, nil })
		return err
	}
	fmt.Println(write("shop", 7))
	err := write("shop", 6)
	fmt.Println(err)
	fmt.Println(write("blog", 1))

	var fenced *backend.FencedError
	fmt.Println(errors.As(err, &fenced), fenced.Have)
	// Output:
	// <nil>
	// a later term has written: term 6 of lease "shop" is over, 7 has written
	// <nil>
	// true 7
}

// A database whose values are one piece of bytes keeps a record in binary form.
func ExampleRecord() {
	r := backend.Record{Key: "web", Version: 7, Labels: map[string]string{"tier": "front"}, Meta: []byte("{}"), Value: []byte("3")}
	b, _ := r.MarshalBinary()
	var back backend.Record
	err := back.UnmarshalBinary(b)
	fmt.Println(back.Key, back.Version, back.Labels, string(back.Value), err)
	// Output: web 7 map[tier:front] 3 <nil>
}

// A watch yields the changes to records in its query, and the changes that leave it.
func ExampleQuery() {
	front := backend.Query{Labels: []backend.Requirement{{Label: "tier", Values: []string{"front"}}}}
	left := backend.Record{Key: "web", Labels: map[string]string{"tier": "back"}, Before: map[string]string{"tier": "front"}}
	fmt.Println(front.Matches(left.Key, left.Labels), front.Concern(&left))
	left.Before = nil // it was in the back before, too
	fmt.Println(front.Matches(left.Key, left.Labels), front.Concern(&left))
	// Output:
	// false true
	// false false
}
