package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Get implements [backend.Backend].
func (b *Backend) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	o := b.object(kind, key)
	r, err := func() (backend.Record, error) {
		res, err := b.kv.Txn(ctx).Then(o.reads()...).Commit()
		if err != nil {
			return backend.Record{}, err
		}
		b.cluster.observe(res.Header)
		return o.decode(res.Responses)
	}()
	if err != nil {
		return backend.Record{}, failed(ctx, fmt.Sprintf("get %s %q", kind, key), err)
	}
	return r, nil
}

// object is the keys of a record. The record is under live, under tombstone, or nowhere, and never under both.
type object struct{ key, live, tombstone string }

func (b *Backend) object(kind, key string) object {
	at := b.keys.kind(kind)
	return object{key, at + live + key, at + tombstones + key}
}

// reads are the operations whose responses decode receives.
func (o object) reads() []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(o.live), clientv3.OpGet(o.tombstone)}
}

func (o object) decode(responses []*etcdserverpb.ResponseOp) (r backend.Record, err error) {
	for i, deleted := range []bool{false, true} {
		if kvs := responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			return decode(o.key, kvs[0], deleted)
		}
	}
	return backend.Record{}, nil
}

// decode returns a record with its revision as the version. Its key says whether it is deleted.
func decode(key string, kv *mvccpb.KeyValue, deleted bool) (r backend.Record, err error) {
	if err := r.UnmarshalBinary(kv.Value); err != nil {
		return r, fmt.Errorf("the record %q of version %d: %w", key, kv.ModRevision, err)
	}
	r.Key, r.Version, r.Deleted = key, informer.Version(kv.ModRevision), deleted
	return r, nil
}

// unchanged returns the comparisons that hold while have is the current record.
func (o object) unchanged(have backend.Record) []clientv3.Cmp {
	var liveAt, tombstoneAt int64
	if have.Deleted {
		tombstoneAt = int64(have.Version)
	} else {
		liveAt = int64(have.Version)
	}
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(o.live), "=", liveAt),
		clientv3.Compare(clientv3.ModRevision(o.tombstone), "=", tombstoneAt),
	}
}

// writes are the operations that write next in place of have. The tombstone comes before the deletion: a watch relies on that order.
func (o object) writes(have, next backend.Record) ([]clientv3.Op, error) {
	next.Key, next.Version = "", 0 // the key and the revision are known already
	data, err := next.MarshalBinary()
	if err != nil {
		return nil, err
	}
	put, other := o.live, o.tombstone
	if next.Deleted {
		put, other = o.tombstone, o.live
	}
	ops := []clientv3.Op{clientv3.OpPut(put, string(data))}
	if have.Version != 0 && have.Deleted != next.Deleted {
		ops = append(ops, clientv3.OpDelete(other))
	}
	return ops, nil
}

// refusal is an error of decide or of a fence. Transact returns it unchanged.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Transact implements [backend.Backend]. It reads, decides, and compares and swaps, and retries after a lost race.
func (b *Backend) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	r, wrote, err := b.transact(ctx, b.object(kind, key), b.terms(fences), decide)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return backend.Record{}, refused.error
	case err != nil:
		return backend.Record{}, failed(ctx, fmt.Sprintf("write %s %q", kind, key), err)
	case wrote:
		b.latest.wrote(r.Version)
		b.tidy(ctx, r.Version)
	}
	return r, nil
}

func (b *Backend) transact(
	ctx context.Context, o object, terms terms, decide backend.Decide,
) (r backend.Record, wrote bool, err error) {
	reads := append(o.reads(), terms.reads()...)
	res, err := b.kv.Txn(ctx).Then(reads...).Commit()
	for {
		if err != nil {
			return r, false, err
		}
		b.cluster.observe(res.Header)
		raises, recorded, err := terms.check(res.Responses[2:])
		if err != nil {
			return r, false, err
		}
		have, err := o.decode(res.Responses)
		if err != nil {
			return r, false, err
		}
		next, err := decide(have)
		if err != nil {
			return r, false, refusal{err}
		}
		if next == nil && len(raises) == 0 {
			return have, false, nil
		}
		writes := raises
		if next != nil {
			if err := b.fits(have, *next); err != nil {
				return r, false, err
			}
			ops, err := o.writes(have, *next)
			if err != nil {
				return r, false, err
			}
			writes = append(ops, raises...)
		}
		res, err = b.kv.Txn(ctx).If(append(o.unchanged(have), recorded...)...).Then(writes...).Else(reads...).Commit()
		if err != nil {
			return r, false, err
		}
		if !res.Succeeded {
			continue
		}
		b.cluster.observe(res.Header)
		if next == nil {
			return have, false, nil
		}
		r = *next
		r.Key, r.Version = o.key, informer.Version(res.Header.Revision)
		return r, true, nil
	}
}

// fits refuses a record that would leave no room for its own deletion. The engine has already refused records above the maximum. fits
// reserves a part of that for writes that leave the value unchanged: finalizers and the deletion.
func (b *Backend) fits(have, next backend.Record) error {
	size := len(next.Meta) + len(next.Value)
	for _, labels := range []map[string]string{next.Labels, next.Before} {
		for key, value := range labels {
			size += len(key) + len(value)
		}
	}
	most := b.Capabilities().MaxBytes
	if !next.Deleted && !bytes.Equal(have.Value, next.Value) {
		most -= endBytes
	}
	if size > most {
		return fmt.Errorf("%w: it has %d bytes, %d are allowed: a request of etcd is limited by --max-request-bytes, here %d (Config.MaxRequestBytes)",
			backend.ErrTooLarge, size, most, b.cfg.MaxRequestBytes)
	}
	return nil
}

// terms are the fences of a write, each with its key.
type terms []term

type term struct {
	backend.Fence
	key string
}

func (b *Backend) terms(fences []backend.Fence) (t terms) {
	for _, f := range fences {
		t = append(t, term{f, b.keys.fence(f.Lease)})
	}
	return t
}

// reads are the operations whose responses check receives.
func (t terms) reads() (ops []clientv3.Op) {
	for _, f := range t {
		ops = append(ops, clientv3.OpGet(f.key))
	}
	return ops
}

// check returns a refusal if a term is over. Otherwise it returns the operations that record terms greater than the recorded ones, and the
// comparisons that hold while the recorded ones are unchanged.
func (t terms) check(responses []*etcdserverpb.ResponseOp) (raises []clientv3.Op, recorded []clientv3.Cmp, err error) {
	for i, f := range t {
		var have uint64
		var revision int64
		if kvs := responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			revision = kvs[0].ModRevision
			if have, err = strconv.ParseUint(string(kvs[0].Value), 10, 64); err != nil {
				return nil, nil, fmt.Errorf("the term of lease %q: %w", f.Lease, err)
			}
		}
		if err := f.Check(have); err != nil {
			return nil, nil, refusal{err}
		}
		if f.Term > have {
			raises = append(raises, clientv3.OpPut(f.key, strconv.FormatUint(f.Term, 10)))
		}
		recorded = append(recorded, clientv3.Compare(clientv3.ModRevision(f.key), "=", revision))
	}
	return raises, recorded, nil
}
