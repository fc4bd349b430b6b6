package informertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

func TestHeldSourceLagsAndKeepsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := informertest.NewSource(func(s string) string { return s[:1] })
		src.Put("a1")
		in, err := informer.New(src, src.Key, informer.Config{OnError: func(err error) { t.Error(err) }})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- in.Run(t.Context()) }()
		synctest.Wait()
		src.Put("a2")
		src.Hold()
		src.Put("b1")
		src.Hold()
		src.Delete("a")
		synctest.Wait()
		assert.Equal(t, informer.Version(2), in.Version(), "events before Hold were yielded")
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"b1"}, list.Items, "a list shows the current state")

		src.Release()
		synctest.Wait()
		assert.Equal(t, src.Version(), in.Version())
		_, ok := in.Get("a")
		assert.False(t, ok)

		src.Hold()
		src.Put("c1")
		time.Sleep(time.Second) // a watch that is shorter, and of no use, is an error
		src.Break(nil)
		synctest.Wait()
		assert.Equal(t, informer.Version(4), in.Version(), "a new watch is held, too")
		src.Release()
		synctest.Wait()
		assert.Equal(t, informer.Version(5), in.Version())
	})
}
