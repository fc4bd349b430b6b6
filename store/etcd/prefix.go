package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
)

// PrefixConfig names the keys of a [Prefix]. Only Prefix is required.
type PrefixConfig struct {
	// Prefix begins the keys, and is written as they are, such as "apps/" or "/registry/apps/". All keys that begin with it belong to the
	// source: "apps" includes "apps/web" and "apps-old/web".
	Prefix string

	// Poll is how often a watch requests its progress, for readers who wait for a version, such as a controller after its own write of
	// another prefix. After [Prefix.Wrote], the watch requests it at once, but at most ten times a second. Changes do not wait for Poll.
	// Values above 2.4 s count as 2.4 s. Defaults to 1 s.
	Poll time.Duration

	_ [0]func()
}

func (c PrefixConfig) withDefaults() PrefixConfig {
	c.Poll = cmp.Or(c.Poll, time.Second)
	return c
}

func (c PrefixConfig) validate() error {
	var errs []error
	if c.Prefix == "" {
		errs = append(errs, errors.New("PrefixConfig.Prefix is empty"))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("PrefixConfig.Poll is %v, must not be negative", c.Poll))
	}
	return problems.Join(errs...)
}

// Prefix is a source made of keys and values of your own, for informer.New: all keys that begin with a prefix, whoever writes them. It is
// an [informer.ListWatcher], an [informer.Pager], an [informer.Bookmarker], and an [informer.Versioner]. It needs permission to read that
// range, and writes nothing. All methods are safe for concurrent use.
//
//  1. A version is a revision of the cluster. So versions of all prefixes can be compared, and with the revisions that your own requests
//     return.
//  2. A watch reports every event once, in order of revision. Of the events of one revision, which are those of a transaction, a deleted
//     range, or an expired lease, only the last has that version. The others have one less.
//  3. All pages of a list are of one revision, and show what a majority of the members has committed.
//  4. A value that decode refuses is unread: see [informer.Informer.Unread]. It is never a deletion. If decode returns its key, as [NewPrefix]
//     asks, it affects no other key.
//  5. A deletion has the last state. If the server no longer has it, or decode refuses it, the deletion has only the key: see
//     [informer.Event.KeyOnly].
//  6. A watch does not go on after a gap. It ends with [informer.ErrExpired] if the changes after its version are compacted, and with
//     [informer.ErrNewHistory] if another cluster answers, or if the cluster has not reached that version, because it was restored from a backup.
//  7. A bookmark of a version comes after all events up to it. An idle cluster has bookmarks too.
//  8. If the user of the client may no longer read the range, the watch ends with the error of the server within about two seconds. etcd
//     itself does not end it, and goes on to send new keys.
//
// Each key under the prefix is one object. So the key of the informer must depend on nothing but the key in etcd. If an object of yours
// has several keys, such as "apps/web/spec" and "apps/web/owner", let decode return the part that a key has, keep both in the cache, and
// combine them in the reconcile. To leave keys out, return an object without an error for them too, and use [informer.Filter].
type Prefix[T any] struct {
	*conn
	cfg    PrefixConfig
	decode func(*mvccpb.KeyValue) (T, error)
	id     uint64 // of the cluster that NewPrefix has found
}

// NewPrefix returns the source of the keys under a prefix. It returns an error if a field of cfg is invalid, if no endpoint of client
// answers, if one runs a version of etcd with a defect that makes watches wrong, or if the user of client may not read the range.
//
// decode makes an object of a key and its value, such as by json.Unmarshal. Its ModRevision and the others are there too. Several
// goroutines call decode concurrently. It may keep the bytes, and must not change them.
//
// If decode returns an error, the object is unread, and a cache keeps the state that it has. NewPrefix then needs the key of that object. It
// calls decode again, with a KeyValue that has nothing but Key, and takes from the result the fields that make up the key, whether or not
// there is an error. So take these fields from Key, and return them with every error:
//
//	func(kv *mvccpb.KeyValue) (App, error) {
//		var app App
//		err := json.Unmarshal(kv.Value, &app)
//		app.Name = strings.TrimPrefix(string(kv.Key), "apps/")
//		return app, err
//	}
//
// It does the same for a deletion without the last state. If that result is the zero T, or decode panics, the key is not known: a list
// has the error in [informer.List.Missing], so that a cache deletes nothing, and a watch ends with [informer.ErrExpired], so that the informer
// lists. A key that equals the prefix has an empty name here: if there may be one, keep the whole key.
//
// The error of an outage is not permanent: call NewPrefix again, such as with retry.OnError.
//
// NewPrefix starts nothing. It does not take over the client. Close the client after all calls have returned. A namespace of the client is
// ignored.
func NewPrefix[T any](
	ctx context.Context, client *clientv3.Client, decode func(*mvccpb.KeyValue) (T, error), cfg PrefixConfig,
) (*Prefix[T], error) {
	if client == nil || decode == nil {
		panic("etcd: NewPrefix called with a nil client or decode")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("etcd: new prefix: %w", err)
	}
	p := &Prefix[T]{conn: connOf(client, cfg.Poll), cfg: cfg, decode: decode}
	err := checkServers(ctx, client)
	if err == nil {
		err = p.permitted(ctx, under(cfg.Prefix))
	}
	if err == nil {
		var header *etcdserverpb.ResponseHeader
		if header, err = p.header(ctx); err == nil {
			p.cluster.observe(header)
			p.id = header.ClusterId
		}
	}
	if err != nil {
		return nil, p.failed(ctx, "new", err)
	}
	return p, nil
}

func (p *Prefix[T]) failed(ctx context.Context, doing string, err error) error {
	return failed(ctx, fmt.Sprintf("%s prefix %q", doing, p.cfg.Prefix), err)
}

// header returns the revision of the cluster after all acknowledged writes, and its id. It reads no value, and needs permission for no more than
// the range.
func (p *Prefix[T]) header(ctx context.Context) (*etcdserverpb.ResponseHeader, error) {
	res, err := p.kv.Get(ctx, p.cfg.Prefix, clientv3.WithCountOnly())
	if err != nil {
		return nil, err
	}
	return res.Header, nil
}

// BookmarkPeriod implements [informer.Bookmarker].
func (p *Prefix[T]) BookmarkPeriod() time.Duration { return backend.BookmarkInterval }

// LatestVersion implements [informer.Versioner]. The version is that of the cluster, so writes of other keys raise it too. The watches of p
// request their progress, so that they reach it soon.
func (p *Prefix[T]) LatestVersion(ctx context.Context) (informer.Version, error) {
	header, err := p.header(ctx)
	if err != nil {
		return 0, p.failed(ctx, "read the latest version of", err)
	}
	p.cluster.observe(header)
	v := informer.Version(header.Revision)
	p.latest.wrote(v)
	return v, nil
}

// clockKind is the kind of the clock of all prefixes of a cluster.
const clockKind = "etcd revision"

// Clock identifies the counter of the versions of p. A controller compares clocks to know which of its caches show a write.
func (p *Prefix[T]) Clock() reconcile.Clock { return reconcile.Clock{Kind: clockKind, DB: p.id} }

// Wrote tells the controller whose reconcile has the context ctx that this reconcile has written to the cluster, in the revision that the
// response of etcd has in its header:
//
//	res, err := client.Txn(ctx).If(guard).Then(clientv3.OpPut(...)).Commit()
//	...
//	apps.Wrote(ctx, res.Header.Revision)
//
// The controller then does not reconcile the key again until its caches of prefixes of this cluster have seen that revision, or until 10 s
// have passed since the reconcile has ended: see controller.Config.StaleReads. The watches of p request their progress, so that they reach
// the revision soon even if it has changed no key of theirs. Outside a reconcile, Wrote does no more than that.
func (p *Prefix[T]) Wrote(ctx context.Context, revision int64) {
	v := informer.Version(max(revision, 0))
	reconcile.ReportWrite(ctx, clockKind, p.id, uint64(v))
	p.latest.wrote(v)
}

// List implements [informer.ListWatcher].
func (p *Prefix[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(p.ListPages(ctx))
}

// ListPages implements [informer.Pager]. A page has about 4 MiB and at most 10,000 objects.
func (p *Prefix[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[T], error] {
	return func(yield func(informer.List[T], error) bool) {
		err := p.pages(ctx, p.cfg.Prefix, func(at informer.Version, kvs []*mvccpb.KeyValue) (bool, error) {
			page := informer.List[T]{Version: at, Items: make([]T, 0, len(kvs))}
			for _, kv := range kvs {
				obj, err := p.read(kv)
				if err == nil {
					page.Items = append(page.Items, obj)
				} else if obj, known := p.keyOf(kv.Key); known {
					page.Unread = append(page.Unread, informer.Unread[T]{Object: obj, Err: err})
				} else {
					page.Missing = append(page.Missing, err)
				}
			}
			return yield(page, nil), nil
		})
		if err != nil {
			yield(informer.List[T]{}, p.failed(ctx, "list", err))
		}
	}
}

// read decodes a value. A panic of decode is an error.
func (p *Prefix[T]) read(kv *mvccpb.KeyValue) (obj T, err error) {
	err = wait.Call(context.Background(), func(context.Context) (err error) {
		obj, err = p.decode(kv)
		return err
	})
	if err != nil {
		return obj, fmt.Errorf("the value of %q of version %d: %w", kv.Key, kv.ModRevision, err)
	}
	return obj, nil
}

// keyOf returns an object with only its key. It returns false if decode does not return that.
func (p *Prefix[T]) keyOf(key []byte) (obj T, known bool) {
	obj, _ = p.read(&mvccpb.KeyValue{Key: key})
	return obj, !reflect.ValueOf(&obj).Elem().IsZero()
}

// Watch implements [informer.ListWatcher].
func (p *Prefix[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		err := p.watchAfter(ctx, after, func(e informer.Event[T]) bool { return yield(e, nil) })
		if err != nil {
			yield(informer.Event[T]{}, p.failed(ctx, "watch", err))
		}
	}
}

// watchAfter calls yield with event after event until it returns false.
func (p *Prefix[T]) watchAfter(ctx context.Context, after informer.Version, yield func(informer.Event[T]) bool) error {
	header, err := p.header(ctx)
	if err != nil {
		return err
	}
	if err := p.cluster.continues(after, header); err != nil {
		return err
	}
	return p.watch(ctx, watchOf{
		keyRange: under(p.cfg.Prefix), after: after, cluster: header.ClusterId, prevKV: true, sink: &events[T]{of: p, yield: yield},
	})
}

// events is the sink of a watch of a prefix.
type events[T any] struct {
	of    *Prefix[T]
	yield func(informer.Event[T]) bool

	revision int64    // of the last event
	put      []string // the keys that this revision has put so far
}

func (s *events[T]) report(e informer.Event[T]) error {
	if !s.yield(e) {
		return errLeft
	}
	return nil
}

// bookmark implements sink.
func (s *events[T]) bookmark(at informer.Version) error {
	return s.report(informer.Event[T]{Type: informer.Bookmark, Version: at})
}

// event implements sink.
func (s *events[T]) event(e *mvccpb.Event, last bool) (reached informer.Version, err error) {
	if e.Kv.ModRevision != s.revision {
		s.revision, s.put = e.Kv.ModRevision, s.put[:0]
	}
	ev := informer.Event[T]{Version: informer.Version(e.Kv.ModRevision)}
	if !last {
		ev.Version--
	}
	known := true
	if e.Type == mvccpb.Event_DELETE {
		ev.Type = informer.Deleted
		ev.Object, ev.KeyOnly = s.lastState(e)
		if ev.KeyOnly {
			ev.Object, known = s.of.keyOf(e.Kv.Key)
		}
	} else {
		s.put = append(s.put, string(e.Kv.Key))
		ev.Type = informer.Modified
		if e.Kv.Version == 1 {
			ev.Type = informer.Added
		}
		if ev.Object, ev.Err = s.of.read(e.Kv); ev.Err != nil {
			ev.Type = informer.Unreadable
			ev.Object, known = s.of.keyOf(e.Kv.Key)
		}
	}
	if !known {
		return 0, fmt.Errorf("%w: decode does not tell the key of %q, which version %d has changed: %w",
			informer.ErrExpired, e.Kv.Key, e.Kv.ModRevision, cmp.Or(ev.Err, errNoKey))
	}
	return ev.Version, s.report(ev)
}

// errNoKey means that decode has returned nothing for a KeyValue that has only a key.
var errNoKey = errors.New("it returns the zero value for a key without a value")

// lastState returns the state that a deletion has ended, and false, or true if that is not known. The server reads it at the revision before.
// So it does not have the state of a key that the same transaction has put before, which is possible in nested transactions.
func (s *events[T]) lastState(e *mvccpb.Event) (obj T, keyOnly bool) {
	if e.PrevKv == nil || slices.Contains(s.put, string(e.Kv.Key)) {
		return obj, true
	}
	obj, err := s.of.read(e.PrevKv)
	return obj, err != nil
}
