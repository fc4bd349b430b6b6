package informer_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

func TestEveryEventHandlerSeesEachChangePassingFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		h := r.handler()
		h.EveryEvent, h.Filter = true, isEven
		_, err := in.AddHandler(h)
		require.NoError(t, err)
		sitetest.Start(t, in)
		for _, rev := range []int{1, 2, 4, 5, 7, 8} { // it enters with 2 and with 8, and leaves with 5
			src.Put(site{Name: "a", Rev: rev})
		}
		src.Delete("a")
		src.Put(site{Name: "a", Life: 1, Rev: 9})
		src.Delete("a")
		src.Put(site{Name: "a", Life: 2, Rev: 10})
		synctest.Wait()
		require.NoError(t, informer.CheckInvariants(in))
		close(r.gate)
		assert.Equal(t, []string{
			"add a.2 initial=false", "update a.2 4", "delete a.4", "add a.8 initial=false", "delete a.8", "add a.10 initial=false",
		}, r.take())
	})
}

func TestLateEveryEventHandlerSeesEachChangeSinceJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		newRecorder(t).add(in)
		sitetest.Start(t, in)
		for rev := range 3 {
			src.Put(site{Name: "a", Rev: rev})
		}
		src.Put(site{Name: "b", Rev: 3})
		synctest.Wait()
		late := newRecorder(t)
		late.gate = make(chan struct{})
		h := late.handler()
		h.EveryEvent = true
		reg, err := in.AddHandler(h)
		require.NoError(t, err)
		synctest.Wait() // a is with the handler, b waits
		src.Put(site{Name: "b", Rev: 4})
		src.Delete("b")
		src.Put(site{Name: "b", Life: 1, Rev: 5})
		synctest.Wait()
		require.NoError(t, informer.CheckInvariants(in))
		late.gate <- struct{}{}
		synctest.Wait()
		assert.False(t, reg.HasSynced(), "b was there")
		late.gate <- struct{}{}
		synctest.Wait()
		assert.True(t, reg.HasSynced(), "later changes are not waited for")
		close(late.gate)
		assert.Equal(t, []string{
			"add a.2 initial=true", "add b.3 initial=true", "update b.3 4", "delete b.4", "add b.5 initial=false",
		}, late.take())
	})
}
