package cookbook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// receiver answers calls. It is a http.RoundTripper.
type receiver struct {
	answers []int // of the calls in turn; then 200
	calls   []string
	got     func() // after a call
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	r.calls = append(r.calls, req.Header.Get("Idempotency-Key")+" "+req.URL.Path)
	status := http.StatusOK
	if len(r.answers) > 0 {
		status, r.answers = r.answers[0], r.answers[1:]
	}
	if r.got != nil {
		r.got()
	}
	if status == 0 {
		return nil, errors.New("no route to host")
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: http.NoBody}, nil
}

// run runs the webhooks in a process, until stop is called.
func (r *receiver) run(t *testing.T, deliveries store.Store[Delivery]) (stop func()) {
	cached, err := informer.New(deliveries, store.Key, informer.Config{})
	require.NoError(t, err)
	w := &Webhooks{&http.Client{Transport: r}, deliveries, cached}
	c, err := w.NewController(func(id string) string { return strings.Split(id, "/")[0] })
	require.NoError(t, err)
	m, err := manager.New(manager.Config{}, c)
	require.NoError(t, err)
	running := looptest.Start(t, m.Run)
	synctest.Wait()
	return running.Cancel
}

func outbox(t *testing.T) store.Store[Delivery] {
	deliveries, err := store.Open[Delivery](store.NewMemory(store.MemoryConfig{}), "Delivery", store.Config[Delivery]{})
	require.NoError(t, err)
	_, err = deliveries.Create(t.Context(), store.Object[Delivery]{Key: "acme/1", Value: Delivery{URL: "http://acme/hook"}})
	require.NoError(t, err)
	return deliveries
}

func TestDeliveryIsRetriedThenNotedThenRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deliveries := outbox(t)
		r := &receiver{answers: []int{500, 0}}
		r.run(t, deliveries)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"acme/1 /hook", "acme/1 /hook", "acme/1 /hook"}, r.calls, "each with the same id")
		d, err := deliveries.Get(t.Context(), "acme/1")
		require.NoError(t, err)
		assert.False(t, d.Value.Delivered.IsZero())
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		_, err = deliveries.Get(t.Context(), "acme/1")
		require.ErrorIs(t, err, store.ErrNotFound)
		assert.Len(t, r.calls, 3)
	})
}

func TestRefusedDeliveryIsGivenUpForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deliveries := outbox(t)
		r := &receiver{answers: []int{410}}
		stop := r.run(t, deliveries)
		d, err := deliveries.Get(t.Context(), "acme/1")
		require.NoError(t, err)
		assert.Contains(t, d.Value.Failed, "Gone")
		stop()
		synctest.Wait()
		r.run(t, deliveries)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(t, r.calls, 1)
		_, err = store.PatchStatus(t.Context(), deliveries, "acme/1", func(o *store.Object[Delivery]) error { o.Value.Failed = ""; return nil })
		require.NoError(t, err)
		synctest.Wait()
		assert.Len(t, r.calls, 2)
	})
}

// The process ends between the call and the note of it.
func TestCallIsRepeatedWithSameIDAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deliveries := outbox(t)
		r := &receiver{}
		cut := &failing{Store: deliveries}
		r.got = func() { cut.down = true } // the process does not reach the store again
		stop := r.run(t, cut)
		stop()
		synctest.Wait()
		r.got = nil
		r.run(t, deliveries)
		assert.Equal(t, []string{"acme/1 /hook", "acme/1 /hook"}, r.calls)
	})
}

// failing is a store that cannot be written while it is down.
type failing struct {
	store.Store[Delivery]
	down bool
}

func (f *failing) UpdateStatus(ctx context.Context, o store.Object[Delivery], pre ...store.Precondition) (store.Object[Delivery], error) {
	if f.down {
		return store.Object[Delivery]{}, errors.New("no route to host")
	}
	return f.Store.UpdateStatus(ctx, o, pre...)
}
