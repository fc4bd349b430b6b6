package interceptor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// A connection that dies without an error looks like an idle source. Only promised bookmarks distinguish the two.
func TestInformerWithHangingWatchIsStale(t *testing.T) {
	type source = informer.ListWatcher[object]
	for name, sourceOf := range map[string]func(s store.Store[thing]) source{
		"a store":     func(s store.Store[thing]) source { return s },
		"a selection": func(s store.Store[thing]) source { return store.Selected(s, store.Selector{}) },
		"a filter": func(s store.Store[thing]) source {
			return informer.Filter(s, func(object) bool { return true })
		},
		"a map": func(s store.Store[thing]) source {
			return informer.Map(s, func(o object) object { return o })
		},
	} {
		for _, hangs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s, _ := intercepted(t)
				if hangs {
					s.Inject(interceptor.Rule{Op: "watch", After: 1, Fault: interceptor.Hang()})
				}
				in, err := informer.New(sourceOf(s), store.Key, informer.Config{})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- in.Run(ctx) }() // ends with cancel; the test waits for it
				require.NoError(t, informer.WaitForSync(ctx, in))
				_, err = s.Create(ctx, object{Key: "new"})
				require.NoError(t, err)
				synctest.Wait() // the watch has reported it, and hangs

				time.Sleep(2 * backend.BookmarkInterval)
				assert.False(t, in.Stale(time.Second), "%s has twice the promised time", name)
				time.Sleep(time.Nanosecond)
				assert.Equal(t, hangs, in.Stale(time.Second), name)
				time.Sleep(time.Minute)
				assert.Equal(t, hangs, in.Stale(time.Second), name)
				cancel()
				require.NoError(t, <-ended)
			})
		}
	}
}
