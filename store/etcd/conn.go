package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
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

	// checkPeriod is how often a watch checks that it is still permitted. Its stream goes on when the permission was revoked.
	checkPeriod = 2 * time.Second
)

// conn is what a Backend, a Prefix, and Leases use of a cluster: pages of a range at one revision, and watches of a range.
type conn struct {
	kv      clientv3.KV
	watches etcdserverpb.WatchClient
	cluster cluster
	latest  latest

	// How long a watch tolerates a silent server, later and before the first answer.
	silence, silenceAtFirst time.Duration

	poll  time.Duration // how often a watch requests its progress
	check time.Duration // how often a watch checks that it is still permitted
}

// connOf returns a conn on client.
func connOf(client *clientv3.Client, poll time.Duration) *conn {
	return &conn{
		kv: voters{clientv3.NewKV(client)}, watches: etcdserverpb.NewWatchClient(client.ActiveConnection()),
		silence: silence, silenceAtFirst: silenceAtFirst, poll: poll, check: checkPeriod,
	}
}

// keyRange is a range of keys: all that begin with a prefix, or one key if end is empty.
type keyRange struct{ key, end string }

func under(prefix string) keyRange { return keyRange{prefix, end(prefix)} }

// permitted returns nil if the user of the client may read the whole range. The server checks the permissions for both branches of a
// transaction, and no key has the version of the condition. So the range is not read, and the client has no error to log.
func (c *conn) permitted(ctx context.Context, r keyRange) error {
	var ops []clientv3.OpOption
	if r.end != "" {
		ops = append(ops, clientv3.WithRange(r.end))
	}
	never := clientv3.Compare(clientv3.Version(r.key), "=", -1)
	_, err := c.kv.Txn(ctx).If(never).Then(clientv3.OpGet(r.key, ops...)).Commit()
	return err
}

// refusal returns when the user of the client may no longer read the range, with the error that says so, or when ctx has ended.
func (c *conn) refusal(ctx context.Context, r keyRange) error {
	tick := time.NewTicker(c.check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, c.silence)
		err := c.permitted(asking, r)
		cancel()
		for _, refused := range refusals {
			if errors.Is(err, refused) {
				return err
			}
		}
	}
}

// refusals are the errors by which a server says that a user may not do something, now and in the next attempt. An outage causes none.
var refusals = []error{
	rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrRoleNotFound,
}

// watchOf is a watch to begin.
type watchOf struct {
	keyRange
	after   informer.Version // events up to here are left out
	cluster uint64           // the id of the cluster that was at that version
	prevKV  bool             // deletions come with the last state, if the server has it
	sink    sink
}

// sink receives what a watch reads, in one goroutine. If a method returns errLeft, the watch ends.
type sink interface {
	// event is called with each event. last is false if another event of its revision follows. It returns the version that the consumer has
	// reached by it, or 0 if it yields nothing.
	event(e *mvccpb.Event, last bool) (reached informer.Version, err error)

	// bookmark is called when everything up to a version has arrived, and it is time to say so.
	bookmark(at informer.Version) error
}

// errLeft means that the consumer has left its loop.
var errLeft = errors.New("etcd: the consumer has left")

// watch passes event after event to the sink.
func (c *conn) watch(ctx context.Context, of watchOf) error {
	_, err := beyondLearners(func() (struct{}, error) { return struct{}{}, c.watchOnce(ctx, of) }) // which refuse it before the first event
	return err
}

// watchOnce is watch on the next endpoint. It has its own stream. The streams that a client shares among its
// watches buffer without a limit for a slow consumer. They also resume by themselves, on any cluster that answers.
func (c *conn) watchOnce(ctx context.Context, of watchOf) error {
	streaming, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	stream, err := c.watches.Watch(streaming, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		cancel()
		return err
	}
	err = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{
			Key: []byte(of.key), RangeEnd: []byte(of.end), PrevKv: of.prevKV,
			// Otherwise one response may have a thousand changes of the past, whatever their size.
			Fragment: true,
			// Watch from the version itself, and leave its events out below: a server does not report progress to a watch that begins at a
			// future revision. The first revision is 1.
			StartRevision: max(int64(of.after), 1),
		},
	}})
	if err != nil { // it is io.EOF, and Recv has the reason
		_, err = stream.Recv()
		cancel()
		return err
	}
	answers, refused := make(chan answer), make(chan error, 1)
	var others sync.WaitGroup
	others.Go(func() { // receives, which blocks; it ends with the stream, and the watch waits for it
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
	others.Go(func() { refused <- c.refusal(streaming, of.keyRange) }) // checks the permission; ends with the stream; the watch waits for it
	defer others.Wait()
	defer cancel()
	w := &watcher{
		watchOf: of, conn: c, stream: stream,
		reported: of.after, last: time.Now(), soon: time.NewTimer(time.Hour), lost: time.NewTimer(c.silenceAtFirst),
	}
	defer w.soon.Stop()
	defer w.lost.Stop()
	return w.run(ctx, answers, refused)
}

// answer is a response or an error of a stream.
type answer struct {
	res *etcdserverpb.WatchResponse
	err error
}

// watcher is one watch, after it was requested from the server.
//
//  1. The sink receives each event after the version once, in order.
//  2. An event that may be followed by another one of its revision is held until that is known: a server sends the events of one revision
//     in one response, or in fragments of one.
//  3. A bookmark never has the version of an event that is held, or that may still come.
type watcher struct {
	watchOf
	conn   *conn
	stream etcdserverpb.Watch_WatchClient

	held     *mvccpb.Event    // received, and not passed to the sink
	reported informer.Version // everything up to here was yielded, or is nothing that the consumer wants
	last     time.Time        // of the last yield

	created bool // the server has begun the watch
	synced  bool // the server has reported its progress, so the watch has caught up

	asked time.Time   // when the progress was last requested
	soon  *time.Timer // when to ask next because of own writes
	lost  *time.Timer // when to give up on the server
}

func (w *watcher) run(ctx context.Context, answers <-chan answer, refused <-chan error) error {
	tick := time.NewTicker(min(w.conn.poll, idle))
	defer tick.Stop()
	for {
		written, changed := w.conn.latest.next()
		if w.created && w.reported < written {
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
		case err = <-refused:
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
		return w.conn.silence
	}
	return w.conn.silenceAtFirst
}

// tick requests the progress. While the server reads the history, it does not answer. Then tick yields a bookmark of the last version, so
// that the consumer does not consider the watch dead.
func (w *watcher) tick() error {
	if !w.synced && time.Since(w.last) >= idle {
		if err := w.bookmark(w.reported); err != nil {
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

// bookmark says that everything up to a version has arrived.
func (w *watcher) bookmark(at informer.Version) error {
	w.reported = at
	err := w.sink.bookmark(at)
	w.last = time.Now()
	return err
}

// pass passes the event that is held to the sink.
func (w *watcher) pass(last bool) error {
	e := w.held
	if w.held = nil; e == nil {
		return nil
	}
	reached, err := w.sink.event(e, last)
	if reached > 0 {
		w.reported, w.last = reached, time.Now()
	}
	return err
}

func (w *watcher) handle(a answer) error {
	if a.err != nil {
		return a.err
	}
	res := a.res
	switch {
	case res.Header.ClusterId != w.cluster:
		return fmt.Errorf("%w: another cluster answers", informer.ErrNewHistory)
	case res.Canceled && res.CompactRevision > 0:
		return fmt.Errorf("%w: the changes before version %d are compacted", informer.ErrExpired, res.CompactRevision)
	case res.Canceled && res.CancelReason == rpctypes.ErrorDesc(rpctypes.ErrGRPCPermissionDenied):
		return rpctypes.ErrPermissionDenied
	case res.Canceled:
		return fmt.Errorf("the server has ended the watch: %s", res.CancelReason)
	case len(res.Events) == 0 && !res.Created && informer.Version(res.Header.Revision) < w.reported:
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
		if err := w.pass(w.held != nil && w.held.Kv.ModRevision < e.Kv.ModRevision); err != nil {
			return err
		}
		w.held = e
	}
	if res.Fragment { // the next one may have more events of the last revision
		return nil
	}
	if err := w.pass(true); err != nil {
		return err
	}
	if at > w.reported { // the sink has left out the last event
		return w.bookmark(at)
	}
	return nil
}

// progress records that all events up to a version have arrived.
func (w *watcher) progress(at informer.Version) error {
	w.synced = true
	if at > w.reported || time.Since(w.last) >= idle {
		return w.bookmark(at)
	}
	return nil
}

// cluster detects that the endpoints now belong to another cluster, such as one that was restored from a backup. The revisions of two
// clusters are unrelated.
type cluster struct {
	mu sync.Mutex
	// mu guards the following.
	id    uint64           // of the cluster that answered last
	begin informer.Version // its version when it answered first; 0 for the one of Open
}

// observe records an answer. It returns the version at which the cluster was first seen, or 0.
func (c *cluster) observe(header *etcdserverpb.ResponseHeader) (begin informer.Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id != 0 && c.id != header.ClusterId {
		c.begin = informer.Version(header.Revision)
	}
	c.id = header.ClusterId
	return c.begin
}

// continues returns nil if the history of the cluster that has answered, after all acknowledged writes, continues from a version.
func (c *cluster) continues(after informer.Version, header *etcdserverpb.ResponseHeader) error {
	seen, now := c.observe(header), informer.Version(header.Revision)
	switch {
	case after > now: // a watch from there would be accepted, and silent
		return fmt.Errorf("%w: the cluster is at version %d, not at %d", informer.ErrNewHistory, now, after)
	case after > 0 && after < seen:
		return fmt.Errorf("%w: another cluster has answered since version %d", informer.ErrNewHistory, seen)
	}
	return nil
}

// latest is the last write of a Backend or a Prefix.
type latest struct {
	mu sync.Mutex
	// mu guards the following.
	version informer.Version

	changed broadcast.Signal // wakes at each write
}

// next returns the version of the last write, and a channel that the next one closes.
func (l *latest) next() (informer.Version, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version, l.changed.Next()
}

// wrote wakes the watches after a write.
func (l *latest) wrote(v informer.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = max(l.version, v)
	l.changed.Wake()
}
