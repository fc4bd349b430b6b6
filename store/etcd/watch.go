package etcd

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Watch implements [backend.Backend].
func (b *Backend) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		if err := b.watchKind(ctx, kind, q, after, func(c backend.Change) bool { return yield(c, nil) }); err != nil {
			yield(backend.Change{}, failed(ctx, "watch "+kind, err))
		}
	}
}

// begin checks that the history continues from a version, and returns the version to watch from.
func (b *Backend) begin(ctx context.Context, after informer.Version) (from informer.Version, cluster uint64, err error) {
	res, err := b.kv.Get(ctx, b.keys.layout()) // after all acknowledged writes, so no version is above the revision
	if err != nil {
		return 0, 0, err
	}
	if err := b.cluster.continues(after, res.Header); err != nil {
		return 0, 0, err
	}
	if len(res.Kvs) == 0 {
		return 0, 0, fmt.Errorf("the key %q is gone", b.keys.layout())
	}
	created := informer.Version(res.Kvs[0].CreateRevision)
	switch {
	case after == 0: // before the first change, which came after the layout
		return created, res.Header.ClusterId, nil
	case after < created:
		return 0, 0, fmt.Errorf("%w: the keys were created at version %d", backend.ErrExpired, created)
	}
	return after, res.Header.ClusterId, nil
}

// watchKind calls yield with change after change until it returns false.
func (b *Backend) watchKind(
	ctx context.Context, kind string, q backend.Query, after informer.Version, yield func(backend.Change) bool,
) error {
	from, cluster, err := b.begin(ctx, after)
	if err != nil {
		return err
	}
	prefix := b.keys.kind(kind)
	return b.watch(ctx, watchOf{
		keyRange: under(prefix), after: from, cluster: cluster, sink: &records{prefix: prefix, query: q, yield: yield},
	})
}

// records is the sink of a watch of a kind.
type records struct {
	prefix string // of the keys of the kind
	query  backend.Query
	yield  func(backend.Change) bool

	tombstone mvccpb.KeyValue // the last one
}

func (s *records) report(c backend.Change) error {
	if !s.yield(c) {
		return errLeft
	}
	return nil
}

// bookmark implements sink.
func (s *records) bookmark(at informer.Version) error { return s.report(backend.Change{Version: at}) }

// event implements sink. A transaction changes one record, so its revision is complete when the record is reported.
func (s *records) event(e *mvccpb.Event, _ bool) (reached informer.Version, err error) {
	rest := string(e.Kv.Key[len(s.prefix):])
	key, deleted := strings.CutPrefix(rest, tombstones)
	if !deleted {
		var isLive bool
		if key, isLive = strings.CutPrefix(rest, live); !isLive {
			return 0, nil // not a key of ours
		}
	}
	if e.Type == mvccpb.Event_DELETE {
		if deleted { // a tombstone makes room for a record, or is forgotten
			return 0, nil
		}
		if string(s.tombstone.Key) != s.prefix+tombstones+key || s.tombstone.ModRevision != e.Kv.ModRevision {
			return 0, fmt.Errorf("%w: %q was deleted by another program at version %d, without a tombstone", backend.ErrExpired, key, e.Kv.ModRevision)
		}
		return 0, nil // reported with the tombstone
	}
	if deleted { // the deletion of the record comes next
		s.tombstone.Key, s.tombstone.ModRevision = e.Kv.Key, e.Kv.ModRevision
	}
	r, err := decode(key, e.Kv, deleted)
	if err != nil {
		return 0, err
	}
	if !s.query.Concern(&r) {
		return 0, nil
	}
	return r.Version, s.report(backend.Change{Record: r, Version: r.Version})
}
