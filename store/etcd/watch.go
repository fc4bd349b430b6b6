package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	// idle is how long a watch yields nothing before a bookmark is due, and the longest time between two progress requests. If a bookmark is
	// not quite due at the first answer, it comes with the second one, which has a little time to arrive.
	idle = backend.BookmarkInterval/2 - 100*time.Millisecond

	// askPause is the minimum time between two progress requests after own writes.
	askPause = 100 * time.Millisecond

	// silence is how long a server may leave a progress request unanswered. silenceAtFirst applies while the server still reads the history
	// for this watch, during which it answers none.
	silence        = 2 * backend.BookmarkInterval
	silenceAtFirst = time.Minute
)

// Watch implements [backend.Backend].
func (b *Backend) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		if err := b.watch(ctx, kind, q, after, func(c backend.Change) bool { return yield(c, nil) }); err != nil {
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
	seen := b.cluster.observe(res.Header)
	if len(res.Kvs) == 0 {
		return 0, 0, fmt.Errorf("the key %q is gone", b.keys.layout())
	}
	now, created := informer.Version(res.Header.Revision), informer.Version(res.Kvs[0].CreateRevision)
	switch {
	case after > now:
		return 0, 0, fmt.Errorf("%w: the cluster is at version %d, not at %d", backend.ErrExpired, now, after)
	case after == 0: // before the first change, which came after the layout
		return created, res.Header.ClusterId, nil
	case after < created:
		return 0, 0, fmt.Errorf("%w: the keys were created at version %d", backend.ErrExpired, created)
	case after < seen:
		return 0, 0, fmt.Errorf("%w: another cluster has answered since version %d", backend.ErrExpired, seen)
	}
	return after, res.Header.ClusterId, nil
}

// watch calls yield with change after change until it returns false. It has its own stream. The streams that a client shares among its
// watches buffer without a limit for a slow consumer. They also resume by themselves, on any cluster that answers.
func (b *Backend) watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version, yield func(backend.Change) bool,
) error {
	from, cluster, err := b.begin(ctx, after)
	if err != nil {
		return err
	}
	streaming, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	stream, err := b.watches.Watch(streaming, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		cancel()
		return err
	}
	prefix := b.keys.kind(kind)
	err = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{
			Key: []byte(prefix), RangeEnd: []byte(end(prefix)),
			// Otherwise one response may have a thousand changes of the past, whatever their size.
			Fragment: true,
			// Watch from the version itself, and leave its events out below: a server does not report progress to a watch that begins at a
			// future revision.
			StartRevision: int64(from),
		},
	}})
	if err != nil { // it is io.EOF, and Recv has the reason
		_, err = stream.Recv()
		cancel()
		return err
	}
	answers := make(chan answer)
	var receiving sync.WaitGroup
	receiving.Go(func() { // receives, which blocks; it ends with the stream, and the watch waits for it
		for {
			res, err := stream.Recv()
			select {
			case answers <- answer{res, err}:
			case <-streaming.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	defer receiving.Wait()
	defer cancel()
	w := &watcher{
		b: b, stream: stream, prefix: prefix, query: q, cluster: cluster, yield: yield,
		after: from, told: after, last: time.Now(), soon: time.NewTimer(time.Hour), lost: time.NewTimer(b.silenceAtFirst),
	}
	defer w.soon.Stop()
	defer w.lost.Stop()
	return w.run(ctx, answers)
}

// answer is a response or an error of a stream.
type answer struct {
	res *etcdserverpb.WatchResponse
	err error
}

// errLeft means that the consumer has left its loop.
var errLeft = errors.New("etcd: the consumer has left")

// watcher is one watch, after it was requested from the server.
type watcher struct {
	b       *Backend
	stream  etcdserverpb.Watch_WatchClient
	prefix  string // of the keys of the kind
	query   backend.Query
	cluster uint64 // its id
	yield   func(backend.Change) bool

	after informer.Version // events up to here are left out
	told  informer.Version // everything up to here was yielded, or does not match the query
	last  time.Time        // of the last yield

	created bool // the server has begun the watch
	synced  bool // the server has reported its progress, so the watch has caught up

	tombstone mvccpb.KeyValue // the last one

	asked time.Time   // when the progress was last requested
	soon  *time.Timer // when to ask next because of own writes
	lost  *time.Timer // when to give up on the server
}

func (w *watcher) run(ctx context.Context, answers <-chan answer) error {
	tick := time.NewTicker(min(w.b.cfg.Poll, idle))
	defer tick.Stop()
	for {
		written, changed := w.b.latest.next()
		if w.created && w.told < written {
			w.soon.Reset(time.Until(w.asked.Add(askPause)))
			changed = nil // already due
		}
		var err error
		select {
		case a := <-answers:
			err = w.handle(a)
		case <-changed:
		case <-w.soon.C:
			err = w.ask()
		case <-tick.C:
			err = w.tick()
		case <-w.lost.C:
			select {
			case a := <-answers: // the consumer was slow, not the server
				err = w.handle(a)
			default:
				err = fmt.Errorf("the server has not answered for %v", w.limit())
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if errors.Is(err, errLeft) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// limit is how long the server may be silent.
func (w *watcher) limit() time.Duration {
	if w.synced {
		return w.b.silence
	}
	return w.b.silenceAtFirst
}

// tick requests the progress. While the server reads the history, it does not answer. Then tick yields a bookmark of the last version, so
// that the consumer does not consider the watch dead.
func (w *watcher) tick() error {
	if !w.synced && time.Since(w.last) >= idle {
		if err := w.tell(backend.Change{Version: w.told}); err != nil {
			return err
		}
	}
	return w.ask()
}

// ask requests the progress. A server whose watch is behind does not answer, so the next tick asks again.
func (w *watcher) ask() error {
	if !w.created {
		return nil
	}
	w.asked = time.Now()
	// An error comes from the stream, whose receiver gets it too, with the reason.
	_ = w.stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{
		ProgressRequest: &etcdserverpb.WatchProgressRequest{},
	}})
	return nil
}

// tell yields a change, and returns errLeft if the consumer has left its loop.
func (w *watcher) tell(c backend.Change) error {
	w.told = c.Version
	more := w.yield(c)
	if w.last = time.Now(); !more {
		return errLeft
	}
	return nil
}

func (w *watcher) handle(a answer) error {
	if a.err != nil {
		return a.err
	}
	res := a.res
	switch {
	case res.Header.ClusterId != w.cluster:
		return fmt.Errorf("%w: another cluster answers", backend.ErrExpired)
	case res.Canceled && res.CompactRevision > 0:
		return fmt.Errorf("%w: the changes before version %d are compacted", backend.ErrExpired, res.CompactRevision)
	case res.Canceled:
		return fmt.Errorf("the server has ended the watch: %s", res.CancelReason)
	case len(res.Events) == 0 && !res.Created && informer.Version(res.Header.Revision) < w.told:
		return nil // from a member that lags behind. If it never catches up, the watch gives up on it.
	}
	defer func() { w.lost.Reset(w.limit()) }() // last, so that the time of the consumer does not count
	switch {
	case res.Created:
		w.created = true
		return w.ask()
	case len(res.Events) == 0:
		return w.progress(informer.Version(res.Header.Revision))
	}
	var at informer.Version
	for _, e := range res.Events {
		if at = informer.Version(e.Kv.ModRevision); at <= w.after {
			continue
		}
		if err := w.event(e); err != nil {
			return err
		}
	}
	if at > w.told { // a transaction changes one record, so its revision is complete
		return w.tell(backend.Change{Version: at})
	}
	return nil
}

// progress records that all events up to a version have arrived.
func (w *watcher) progress(at informer.Version) error {
	w.synced = true
	if at > w.told || time.Since(w.last) >= idle {
		return w.tell(backend.Change{Version: at})
	}
	return nil
}

// event reports an event of a key under the prefix.
func (w *watcher) event(e *mvccpb.Event) error {
	rest := string(e.Kv.Key[len(w.prefix):])
	key, deleted := strings.CutPrefix(rest, gone)
	if !deleted {
		var isLive bool
		if key, isLive = strings.CutPrefix(rest, live); !isLive {
			return nil // not a key of ours
		}
	}
	if e.Type == mvccpb.Event_DELETE {
		if deleted { // a tombstone makes room for a record, or is forgotten
			return nil
		}
		if string(w.tombstone.Key) != w.prefix+gone+key || w.tombstone.ModRevision != e.Kv.ModRevision {
			return fmt.Errorf("%w: %q was deleted by another program at version %d, without a tombstone", backend.ErrExpired, key, e.Kv.ModRevision)
		}
		return nil // reported with the tombstone
	}
	if deleted { // the deletion of the record comes next
		w.tombstone.Key, w.tombstone.ModRevision = e.Kv.Key, e.Kv.ModRevision
	}
	r, err := decode(key, e.Kv, deleted)
	if err != nil {
		return err
	}
	if !w.query.Concern(&r) {
		return nil
	}
	return w.tell(backend.Change{Record: r, Version: r.Version})
}
