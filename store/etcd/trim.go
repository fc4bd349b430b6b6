package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/informer"
)

const (
	// tidyEvery is how many versions pass between two steps, on average and over all processes: a write whose version is a multiple of it
	// takes the step. It is prime, so that no regular pattern of writes misses it.
	tidyEvery = 101
	// tidyTimeout limits how long a step delays that write.
	tidyTimeout = time.Second

	trimKeys  = 1000 // tombstones that a step reads, more than are made between two steps
	trimKinds = 16   // kinds that a step reads
	trimTxn   = 60   // tombstones of a transaction; etcd allows 128 operations by default
)

// trim is the progress of removing old tombstones. A tombstone is removed when no watch from before it can begin any more, because its
// revision is compacted.
type trim struct {
	mu sync.Mutex
	// mu guards the following, and is held by the running step.
	boundary int64  // tombstones up to this revision are removed once it is compacted; 0 before the first step
	cursor   string // the next key to read
}

// tidy takes a step if the write of the given version is due to take one. If a step fails, the next step continues.
func (b *Backend) tidy(ctx context.Context, v informer.Version) {
	if v%tidyEvery != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	if h := informer.Version(b.cfg.History); h > 0 && v > h {
		_, _ = b.kv.Compact(ctx, int64(v-h))
	}
	_ = b.forget(ctx, int64(v))
}

// forget deletes some of the tombstones that are old enough. now is the current revision.
func (b *Backend) forget(ctx context.Context, now int64) error {
	t := &b.trim
	if !t.mu.TryLock() {
		return nil
	}
	defer t.mu.Unlock()
	if t.boundary == 0 {
		t.boundary, t.cursor = now, b.keys.objects()
	}
	_, err := b.kv.Get(ctx, b.keys.layout(), clientv3.WithRev(t.boundary), clientv3.WithCountOnly())
	if !errors.Is(err, rpctypes.ErrCompacted) {
		return err // nil: a watch could begin there
	}
	for range trimKinds {
		res, err := b.kv.Get(ctx, t.cursor, clientv3.WithRange(end(b.keys.objects())), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		if len(res.Kvs) == 0 { // all kinds have been read
			t.boundary, t.cursor = now, b.keys.objects()
			return nil
		}
		found := string(res.Kvs[0].Key)
		kind := b.keys.kindOf(found)
		if kind == "" || !strings.HasPrefix(found, kind+tombstones) {
			t.cursor = end(kind)
			if kind == "" {
				t.cursor = found + "\x00" // not a key of ours
			}
			continue
		}
		return b.forgetOf(ctx, kind)
	}
	return nil
}

// forgetOf reads the next tombstones of a kind, and deletes those that are old enough. The caller holds trim.mu.
func (b *Backend) forgetOf(ctx context.Context, kind string) error {
	t := &b.trim
	res, err := b.kv.Get(ctx, t.cursor, clientv3.WithRange(end(kind+tombstones)), clientv3.WithLimit(trimKeys), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	var same []clientv3.Cmp
	var deletes []clientv3.Op
	flush := func() error {
		if len(deletes) == 0 {
			return nil
		}
		// If one of them has changed, the next round finds the others.
		_, err := b.kv.Txn(ctx).If(same...).Then(deletes...).Commit()
		same, deletes = nil, nil
		return err
	}
	for _, kv := range res.Kvs {
		if kv.ModRevision > t.boundary {
			continue
		}
		key := string(kv.Key)
		same = append(same, clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision))
		deletes = append(deletes, clientv3.OpDelete(key))
		if len(deletes) == trimTxn {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	t.cursor = end(kind)
	if res.More {
		t.cursor = string(res.Kvs[len(res.Kvs)-1].Key) + "\x00"
	}
	return nil
}
