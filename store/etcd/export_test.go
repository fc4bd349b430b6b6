package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// CheckVersion is the check of Open for a version of etcd.
var CheckVersion = checkVersion

// Failed words the error of a call.
var Failed = failed

// Forget takes a step that a write takes now and then.
func (b *Backend) Forget(ctx context.Context, now informer.Version) error {
	return b.forget(ctx, int64(now))
}

// SetSilence sets how long the server of a watch may be silent.
func (b *Backend) SetSilence(d time.Duration) { b.silence, b.silenceAtFirst = d, d }

// Progress returns what a watch yields that has seen everything up to a version, and was silent for a while, when a server reports its
// progress.
func Progress(seen, reported informer.Version) (yielded []backend.Change, err error) {
	w := &watcher{
		watchOf: watchOf{sink: &records{yield: func(c backend.Change) bool { yielded = append(yielded, c); return true }}},
		conn:    new(conn), reported: seen, last: time.Now().Add(-idle), lost: time.NewTimer(time.Hour),
	}
	err = w.handle(answer{res: &etcdserverpb.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: int64(reported)}}})
	return yielded, err
}

// SetCheck sets how often a watch checks that it is still permitted.
func (p *Prefix[T]) SetCheck(d time.Duration) { p.check = d }
