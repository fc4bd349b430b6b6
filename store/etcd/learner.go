package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxRefusals is how often in a row learners may refuse a request.
const maxRefusals = 10

// beyondLearners calls f again if a learner has refused it. A client takes its endpoints in turn. So without that, if one of two is a
// learner, each read could go to the voter, and each watch that follows it to the learner, always.
func beyondLearners[R any](f func() (R, error)) (res R, err error) {
	for range maxRefusals {
		if res, err = f(); !errors.Is(rpctypes.Error(err), rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)) {
			break
		}
	}
	return res, err
}

// voters is a KV that passes learners over.
type voters struct{ clientv3.KV }

func (v voters) Get(ctx context.Context, key string, ops ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return beyondLearners(func() (*clientv3.GetResponse, error) { return v.KV.Get(ctx, key, ops...) })
}

func (v voters) Txn(ctx context.Context) clientv3.Txn { return votersTxn{v.KV.Txn(ctx)} }

type votersTxn struct{ clientv3.Txn }

func (t votersTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { return votersTxn{t.Txn.If(cs...)} }
func (t votersTxn) Then(ops ...clientv3.Op) clientv3.Txn { return votersTxn{t.Txn.Then(ops...)} }
func (t votersTxn) Else(ops ...clientv3.Op) clientv3.Txn { return votersTxn{t.Txn.Else(ops...)} }

func (t votersTxn) Commit() (*clientv3.TxnResponse, error) { return beyondLearners(t.Txn.Commit) }
