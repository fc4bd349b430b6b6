package etcd

import (
	"context"
	"iter"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// A page of a list has about pageBytes, judging by the page before, and at most maxPage records. Before etcd 3.7, the server counts the
// rest of the range for each page, so many small pages of a large kind are slow.
const (
	pageBytes = 4 << 20
	firstPage = 100
	maxPage   = 10_000
)

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := b.list(ctx, kind, q, func(p backend.Page) bool { return yield(p, nil) }); err != nil {
			yield(backend.Page{}, failed(ctx, "list "+kind, err))
		}
	}
}

// Version implements [backend.Versioner]. The version is that of the cluster, so other programs raise it too. The watches of b request
// their progress, so that they reach it soon.
func (b *Backend) Version(ctx context.Context) (informer.Version, error) {
	res, err := b.kv.Get(ctx, b.keys.layout(), clientv3.WithKeysOnly())
	if err != nil {
		return 0, failed(ctx, "read the version", err)
	}
	b.cluster.observe(res.Header)
	v := informer.Version(res.Header.Revision)
	b.latest.wrote(v)
	return v, nil
}

// list calls yield with page after page, all at the revision of the first, until it returns false.
func (b *Backend) list(ctx context.Context, kind string, q backend.Query, yield func(backend.Page) bool) error {
	prefix := b.keys.kind(kind) + live
	return b.pages(ctx, prefix+q.Prefix, func(at informer.Version, kvs []*mvccpb.KeyValue) (bool, error) {
		page := backend.Page{Version: at, Records: make([]backend.Record, 0, len(kvs))}
		for _, kv := range kvs {
			r, err := decode(strings.TrimPrefix(string(kv.Key), prefix), kv, false)
			if err != nil {
				return false, err
			}
			if q.Matches(r.Key, r.Labels) {
				page.Records = append(page.Records, r)
			}
		}
		return yield(page), nil
	})
}

// pages calls use with page after page of the keys that begin with prefix, all at the revision of the first, until it returns false. There
// is at least one page.
func (c *conn) pages(
	ctx context.Context, prefix string, use func(at informer.Version, kvs []*mvccpb.KeyValue) (more bool, err error),
) error {
	from, to := prefix, end(prefix)
	var revision, limit, most int64 = 0, firstPage, maxPage // revision 0 is the current one
	for {
		res, err := c.kv.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(limit), clientv3.WithRev(revision))
		if limit > 1 && exceeds(err) {
			limit /= 2
			most = limit
			continue
		}
		if err != nil {
			return err
		}
		c.cluster.observe(res.Header)
		if revision == 0 {
			revision = res.Header.Revision
		}
		if more, err := use(informer.Version(revision), res.Kvs); err != nil || !more || !res.More {
			return err
		}
		size := 0
		for _, kv := range res.Kvs {
			size += len(kv.Key) + len(kv.Value)
		}
		from = string(res.Kvs[len(res.Kvs)-1].Key) + "\x00"
		limit = min(next(int64(len(res.Kvs)), size), most)
	}
}

// next returns the limit of the next page, after one with the given numbers of records and bytes.
func next(records int64, size int) int64 {
	return min(max(records*pageBytes/int64(max(size, 1)), 1), 10*records)
}

// exceeds reports whether an answer was larger than the client accepts.
func exceeds(err error) bool {
	s, _ := status.FromError(err)
	return s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "received message larger than max")
}
