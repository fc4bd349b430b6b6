package shard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

// A renewal of a membership hangs until the membership is lost. Run reports the renewal only if it still hangs at the end of Run.
func TestCallOfLostMembershipIsStuckOnlyIfItHangs(t *testing.T) {
	for what, returns := range map[string]bool{"it has returned": true, "it hangs": false} {
		subWorld(t, what, 4, func(t *testing.T, w *world) {
			release, hung := make(chan struct{}), make(chan time.Time, 1)
			a := w.join(t, "a", func(cfg *shard.Config) {
				cfg.Lease.Store = hangingMember{cfg.Lease.Store.(shardLink), release, hung}
			})
			began := <-hung
			after(renew + retry)
			taken, err := w.store.List(t.Context(), "shards/member/")
			require.NoError(t, err)
			assert.Len(t, taken, 2, "the one that was lost and has not expired, and another, which did not wait for the call")
			assert.Len(t, a.Members(), 1)
			if returns {
				close(release)
			}
			after(calm)
			require.Equal(t, 4, ownedTogether(t, a))
			require.Greater(t, time.Since(began), calm)
			begin := time.Now()
			err = a.stop()
			if returns {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, leaderelect.ErrStoreStuck)
				require.ErrorContains(t, err, "/member/")
				assert.LessOrEqual(t, time.Since(begin), 5*time.Second+2*latency)
				close(release)
			}
		})
	}
}

// A replica that loses its membership takes another before the first one has expired. It is still one replica, with all its slots.
func TestReplicaWithTwoMembershipsCountsOnce(t *testing.T) {
	for _, watches := range []func(*shard.Config){nil, watching} {
		inWorld(t, 8, func(t *testing.T, w *world) {
			a := w.join(t, "a", watches)
			w.settle(t, calm, a) // so its number is 0
			b := w.join(t, "b", watches)
			w.settle(t, calm, a, b)
			after(calm)
			w.mu.Lock()
			acquired := w.acquired
			a.unwritable = map[string]bool{"shards/member/0": true}
			w.mu.Unlock()
			for range 4 * lease / time.Second {
				after(time.Second)
				require.Equal(t, 8, ownedTogether(t, a, b))
				require.Len(t, a.Members(), 2)
				require.Len(t, b.Members(), 2)
			}
			w.mu.Lock()
			assert.Equal(t, acquired, w.acquired, "no slot moves")
			w.mu.Unlock()
			taken, err := w.store.List(t.Context(), "shards/member/")
			require.NoError(t, err)
			assert.Len(t, taken, 3, "a has lost its first membership")
		})
	}
}

// hangingMember is a store whose renewals of the first membership hang from the first one on, until release is closed.
type hangingMember struct {
	shardLink
	release <-chan struct{}
	hung    chan<- time.Time // gets when the first one began; capacity 1
}

func (h hangingMember) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if strings.HasSuffix(e.Key, "/member/0") && e.Term == 1 {
		select {
		case h.hung <- time.Now():
		default:
		}
		<-h.release
	}
	return h.shardLink.Update(ctx, e)
}
