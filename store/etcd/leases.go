package etcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store/backend"
)

// ErrFenced means that the term of a leader is over. It is backend.ErrFenced. The writer must not try again.
var ErrFenced = backend.ErrFenced

// LeasesConfig configures [Leases]. The zero value is ready for use.
type LeasesConfig struct {
	// Prefix begins the keys of all leases. The lease "shop" has two: "PREFIX/records/shop" and "PREFIX/terms/shop". It has at most 256
	// bytes, may begin with a slash, does not end with one, and none of its elements is records or terms. Defaults to "leases".
	Prefix string

	_ [0]func()
}

const (
	recordsElement = "records"
	termsElement   = "terms"
)

func (c LeasesConfig) validate() error {
	if err := checkPrefix(c.Prefix, recordsElement, termsElement); err != nil {
		return problems.Join(fmt.Errorf("LeasesConfig.Prefix is %q, %w", c.Prefix, err))
	}
	return nil
}

// Leases keeps the records of elections in plain keys of etcd, for programs whose data is in keys of their own. They are not the leases of etcd
// that end keys after a time to live: a record never expires by itself. It is a leaderelect.LeaseStore, a leaderelect.Watcher, and a shard.Lister,
// and its entries have a floor.
//
// A program that writes its data with package store should keep its leases there, with package storelease on a [Backend]: then the store
// fences all its writes by itself. Leases guard what a program writes to etcd with its own transactions:
//
//		guard, err := leases.Guard(ctx) // the context of the leader, or of its reconcile
//		if err != nil {
//			return err
//		}
//		res, err := client.Txn(ctx).If(guard).Then(clientv3.OpPut("apps/web/image", image)).Commit()
//		if err == nil && !res.Succeeded {
//			err = etcd.ErrFenced
//		}
//
//	 1. A lease has two keys. The record has the term in its first line, and then the text of the elector. The term key has the term, in
//	    decimal. A takeover writes both in one transaction. A renewal writes only the record.
//	 2. So a guard is one comparison of the term key in a transaction of yours. The transaction commits before any later term of that lease
//	    begins, or not at all, without a clock. Renewals neither delay it nor make it fail.
//	 3. Each write is one transaction, which compares the revision of the record. A version is that revision.
//	 4. The floor of an entry is its revision too. So terms grow also after the two keys were deleted by hand.
//	 5. Followers watch: they take over at once after a release. A failover takes the LeaseDuration.
//	 6. If the user of the client lacks permission, the error is marked with retry.Permanent: an elector that has never reached the lease ends
//	    with it. The user needs read and write permission for the range "PREFIX/", and a guarded write read permission for the term key.
//
// To delete a lease by hand, delete both keys. After a restore from a backup, revisions may be used again: restore as the package
// documentation says. All methods may be called concurrently.
//
// There are no leaderelect.Sessions for etcd. A lease of etcd ends by a time to live of at least two seconds, not with the connection of its
// process. A short LeaseDuration is as fast, and needs no second clock.
type Leases struct {
	*conn
	prefix string
}

// NewLeases returns the leases under a prefix of the cluster of client. It returns an error if a field of cfg is invalid. It sends nothing,
// and does not take over the client. Close the client after the electors have returned. A namespace of the client is ignored.
func NewLeases(client *clientv3.Client, cfg LeasesConfig) (*Leases, error) {
	if client == nil {
		panic("etcd: NewLeases called with a nil client")
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "leases")
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("etcd: new leases: %w", err)
	}
	return &Leases{conn: connOf(client, time.Second), prefix: cfg.Prefix}, nil
}

func (l *Leases) record(key string) string { return l.prefix + "/" + recordsElement + "/" + key }
func (l *Leases) term(key string) string   { return l.prefix + "/" + termsElement + "/" + key }

// answers are the errors with which a store of leases answers a call.
var answers = []error{leaderelect.ErrNotFound, leaderelect.ErrConflict}

// failed words the error of a call.
func (l *Leases) failed(ctx context.Context, doing, key string, err error) error {
	doing = fmt.Sprintf("%s lease %q", doing, key)
	if ctx.Err() == nil {
		for _, answer := range answers {
			if errors.Is(err, answer) {
				return fmt.Errorf("etcd: %s: %w", doing, answer)
			}
		}
		for _, refused := range refusals {
			if errors.Is(err, refused) {
				return retry.Permanent(fmt.Errorf("etcd: %s: the user of the client needs read and write permission for the range %q: %w",
					doing, l.prefix+"/", err))
			}
		}
	}
	return ended.Err(ctx, failed(ctx, doing, err), answers)
}

// Get returns the record, or leaderelect.ErrNotFound.
func (l *Leases) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	e, _, err := l.get(ctx, key)
	if err == nil && e.Version == "" {
		err = leaderelect.ErrNotFound
	}
	if err != nil {
		return leaderelect.Entry{}, l.failed(ctx, "get", key, err)
	}
	return e, nil
}

// get returns the record, or an entry that has only a key.
func (l *Leases) get(ctx context.Context, key string) (leaderelect.Entry, *etcdserverpb.ResponseHeader, error) {
	res, err := l.kv.Get(ctx, l.record(key))
	if err != nil {
		return leaderelect.Entry{}, nil, err
	}
	if len(res.Kvs) == 0 {
		return leaderelect.Entry{Key: key}, res.Header, nil
	}
	e, err := entryOf(key, res.Kvs[0])
	return e, res.Header, err
}

// Create stores a new record, or returns leaderelect.ErrConflict.
func (l *Leases) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	e, err := l.write(ctx, e, clientv3.Compare(clientv3.CreateRevision(l.record(e.Key)), "=", 0))
	if err != nil {
		return leaderelect.Entry{}, l.failed(ctx, "create", e.Key, err)
	}
	return e, nil
}

// Update replaces a record, or returns leaderelect.ErrConflict.
func (l *Leases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	at, err := strconv.ParseInt(e.Version, 10, 64)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil || at <= 0 || strconv.FormatInt(at, 10) != e.Version:
		err = leaderelect.ErrConflict // Leases never return such a version
	default:
		e, err = l.write(ctx, e, clientv3.Compare(clientv3.ModRevision(l.record(e.Key)), "=", at))
	}
	if err != nil {
		return leaderelect.Entry{}, l.failed(ctx, "update", e.Key, err)
	}
	return e, nil
}

// write writes a record if a comparison holds, and its term if that has changed. It returns the entry with its new version, and with its
// key in any case.
func (l *Leases) write(ctx context.Context, e leaderelect.Entry, same clientv3.Cmp) (leaderelect.Entry, error) {
	if ctx.Err() != nil {
		return e, context.Cause(ctx)
	}
	term := strconv.FormatUint(e.Term, 10)
	res, err := l.kv.Txn(ctx).If(same).Then(
		clientv3.OpPut(l.record(e.Key), term+"\n"+string(e.Value)),
		clientv3.OpTxn([]clientv3.Cmp{l.GuardTerm(e.Key, e.Term)}, nil, []clientv3.Op{clientv3.OpPut(l.term(e.Key), term)}),
	).Commit()
	switch {
	case err != nil:
		return e, err
	case !res.Succeeded:
		return e, leaderelect.ErrConflict
	}
	e.Value = slices.Clone(e.Value)
	e.Version, e.Floor = strconv.FormatInt(res.Header.Revision, 10), uint64(res.Header.Revision)
	return e, nil
}

// entryOf decodes a record.
func entryOf(key string, kv *mvccpb.KeyValue) (e leaderelect.Entry, err error) {
	term, value, ok := bytes.Cut(kv.Value, []byte("\n"))
	e = leaderelect.Entry{
		Key: key, Value: bytes.Clone(value), Version: strconv.FormatInt(kv.ModRevision, 10), Floor: uint64(kv.ModRevision),
	}
	if e.Term, err = strconv.ParseUint(string(term), 10, 64); err != nil || !ok {
		return leaderelect.Entry{}, fmt.Errorf("the key %q has no record of a lease: its first line is not a term", kv.Key)
	}
	return e, nil
}

// List returns the records whose keys begin with prefix, sorted by key, all of one moment. It leaves out keys that have no record of a lease.
func (l *Leases) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	var list []leaderelect.Entry
	all := l.record("")
	err := l.pages(ctx, all+prefix, func(_ informer.Version, kvs []*mvccpb.KeyValue) (bool, error) {
		for _, kv := range kvs {
			if e, err := entryOf(strings.TrimPrefix(string(kv.Key), all), kv); err == nil {
				list = append(list, e)
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, l.failed(ctx, "list", prefix, err)
	}
	return list, nil
}

// Watch yields the current record, and then the record after each change, one by one. If the cluster no longer has the changes, the watch
// fails.
func (l *Leases) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		now, header, err := l.get(ctx, key)
		if err == nil {
			if !yield(now, nil) {
				return
			}
			err = l.watch(ctx, watchOf{
				keyRange: keyRange{key: l.record(key)}, after: informer.Version(header.Revision), cluster: header.ClusterId,
				sink: &entries{key: key, yield: func(e leaderelect.Entry) bool { return yield(e, nil) }},
			})
		}
		if err != nil {
			yield(leaderelect.Entry{}, l.failed(ctx, "watch", key, err))
		}
	}
}

// entries is the sink of a watch of a lease.
type entries struct {
	key   string
	yield func(leaderelect.Entry) bool
}

// event implements sink.
func (s *entries) event(e *mvccpb.Event, _ bool) (reached informer.Version, err error) {
	now := leaderelect.Entry{Key: s.key}
	if e.Type != mvccpb.Event_DELETE {
		if now, err = entryOf(s.key, e.Kv); err != nil {
			return 0, err
		}
	}
	if !s.yield(now) {
		return 0, errLeft
	}
	return informer.Version(e.Kv.ModRevision), nil
}

// bookmark implements sink. A watch of a lease has no bookmarks.
func (s *entries) bookmark(informer.Version) error { return nil }

// Guard returns the comparison that a transaction of yours needs, to be a transaction of the leadership that ctx belongs to: ctx is the
// context of OnStartedLeading or one derived from it, such as that of a reconcile. It sends nothing.
//
// The transaction succeeds only if the lease still has the term of that leadership. Otherwise a response has Succeeded false, and the caller
// returns [ErrFenced], or a conflict if it compares other keys too: the elector notices by itself that its term is over.
//
// The error wraps [ErrFenced] if the leadership is over by its own clock ([leaderelect.Leadership.Err]). It is another error if ctx belongs
// to no leadership.
func (l *Leases) Guard(ctx context.Context) (clientv3.Cmp, error) {
	held, ok := leaderelect.FromContext(ctx)
	if !ok {
		return clientv3.Cmp{}, errors.New("etcd: guard: the context belongs to no leadership")
	}
	if err := held.Err(); err != nil {
		return clientv3.Cmp{}, fmt.Errorf("etcd: guard by %q: term %d: %w: %w", held.Key(), held.Term(), ErrFenced, err)
	}
	return l.GuardTerm(held.Key(), held.Term()), nil
}

// GuardTerm is [Leases.Guard] with an explicit key and term, for example if the leader has sent them with a request to another service. It
// reads no clock.
func (l *Leases) GuardTerm(key string, term uint64) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(l.term(key)), "=", strconv.FormatUint(term, 10))
}
