package memdb

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Get implements [backend.Backend].
func (db *DB) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if ctx.Err() != nil {
		return backend.Record{}, context.Cause(ctx)
	}
	it, _ := db.Kind(kind).Find(key, nil)
	return recordOf(it)
}

// List implements [backend.Backend]. It yields one page.
func (db *DB) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if ctx.Err() != nil {
			yield(backend.Page{}, context.Cause(ctx))
			return
		}
		items, version := db.Kind(kind).List(&q)
		page := backend.Page{Records: make([]backend.Record, len(items)), Version: version}
		for i, it := range items {
			var err error
			if page.Records[i], err = it.Record(); err != nil {
				yield(backend.Page{}, err)
				return
			}
		}
		yield(page, nil)
	}
}

// Watch implements [backend.Backend]. See [Kind.Watch].
func (db *DB) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		for step, err := range db.Kind(kind).Watch(ctx, &q, after) {
			change := backend.Change{Version: step.Version}
			if err == nil && step.Item != nil {
				change.Record, err = step.Item.Record()
			}
			if err != nil {
				yield(backend.Change{}, err)
				return
			}
			if !yield(change, nil) {
				return
			}
		}
	}
}

// Transact implements [backend.Backend]. It calls decide again if the record has changed in the meantime.
func (db *DB) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	k := db.Kind(kind)
	for {
		if ctx.Err() != nil {
			return backend.Record{}, context.Cause(ctx)
		}
		it, err := k.Find(key, fences)
		if err != nil {
			return backend.Record{}, err
		}
		have, err := recordOf(it)
		if err != nil {
			return backend.Record{}, err
		}
		decided, err := decide(have)
		if err != nil {
			return backend.Record{}, err
		}
		var next Item
		if decided != nil {
			raw := &rawItem{*decided}
			raw.rec.Key = key
			next = raw
		}
		switch ok, err := k.Commit(key, it, next, fences); {
		case err != nil:
			return backend.Record{}, err
		case ok && next == nil:
			return have, nil
		case ok:
			return recordOf(next)
		}
	}
}

// rawItem is an item that was written as a record.
type rawItem struct{ rec backend.Record }

func (r *rawItem) ItemKey() string                 { return r.rec.Key }
func (r *rawItem) ItemVersion() informer.Version   { return r.rec.Version }
func (r *rawItem) SetVersion(v informer.Version)   { r.rec.Version = v }
func (r *rawItem) IsDeleted() bool                 { return r.rec.Deleted }
func (r *rawItem) Matches(q *backend.Query) bool   { return q.Matches(r.rec.Key, r.rec.Labels) }
func (r *rawItem) Concerns(q *backend.Query) bool  { return q.Concern(&r.rec) }
func (r *rawItem) Record() (backend.Record, error) { return r.rec, nil }

// recordOf returns the record of an item, or an empty one if it is nil.
func recordOf(it Item) (backend.Record, error) {
	if it == nil {
		return backend.Record{}, nil
	}
	return it.Record()
}
