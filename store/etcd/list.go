package etcd

import (
	"context"
	"iter"
	"strings"

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

// list calls yield with page after page, all at the revision of the first, until it returns false.
func (b *Backend) list(ctx context.Context, kind string, q backend.Query, yield func(backend.Page) bool) error {
	prefix := b.keys.kind(kind) + live
	from, to := prefix+q.Prefix, end(prefix+q.Prefix)
	var revision, limit, most int64 = 0, firstPage, maxPage // revision 0 is the current one
	for {
		res, err := b.kv.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(limit), clientv3.WithRev(revision))
		if limit > 1 && exceeds(err) {
			limit /= 2
			most = limit
			continue
		}
		if err != nil {
			return err
		}
		b.cluster.observe(res.Header)
		if revision == 0 {
			revision = res.Header.Revision
		}
		page, size := backend.Page{Version: informer.Version(revision), Records: make([]backend.Record, 0, len(res.Kvs))}, 0
		for _, kv := range res.Kvs {
			size += len(kv.Key) + len(kv.Value)
			r, err := decode(strings.TrimPrefix(string(kv.Key), prefix), kv, false)
			if err != nil {
				return err
			}
			if q.Matches(r.Key, r.Labels) {
				page.Records = append(page.Records, r)
			}
		}
		if !yield(page) || !res.More {
			return nil
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
