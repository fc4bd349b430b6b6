package etcd_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-go/setpoint/store/etcd"
)

// The server enforces the deadline of a call too, and may be the first to notice that it has passed.
func TestServerDeadlineJustBeforeContextIsContextCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("the shift is over")
		late := status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL")
		for _, c := range []struct {
			left time.Duration
			err  error
			want error
		}{
			{time.Millisecond, late, reason},
			{time.Millisecond, status.Error(codes.Unavailable, "no leader"), nil},
			{time.Hour, late, nil}, // the server has a reason of its own
		} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), c.left, reason)
			defer cancel()
			begin := time.Now()
			err := etcd.Failed(ctx, "watch app", c.err)
			if c.want != nil {
				assert.ErrorIs(t, err, c.want)
				assert.Equal(t, "etcd: watch app: the shift is over", err.Error())
			} else {
				assert.ErrorIs(t, err, c.err)
				assert.Zero(t, time.Since(begin))
			}
		}
	})
}
