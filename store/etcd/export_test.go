package etcd

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/informer"
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
