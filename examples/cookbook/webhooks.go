package cookbook

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// Delivery is one call of a webhook. Its key is its id.
type Delivery struct {
	URL, Body string
	Delivered time.Time `store:"status"` // zero if it was not
	Failed    string    `store:"status"` // why it was given up; to try again, empty it
}

// Webhooks delivers each Delivery, and removes it a day later.
type Webhooks struct {
	Client     *http.Client
	Deliveries store.Store[Delivery]
	Cached     *store.Informer[Delivery]
}

// Reconcile makes the call, unless it was made.
func (w *Webhooks) Reconcile(ctx context.Context, id string) (controller.Result, error) {
	d, ok := w.Cached.Get(id)
	if !ok || d.Value.Failed != "" { // after a restart, too, it is not tried again
		return controller.Result{}, nil
	}
	if d.Value.Delivered.IsZero() {
		if err := w.call(ctx, id, d.Value); err != nil {
			return controller.Result{}, err
		}
		return controller.Result{}, w.note(ctx, id, func(d *Delivery) { d.Delivered = time.Now() })
	}
	if wait := time.Until(d.Value.Delivered.AddDate(0, 0, 1)); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	_, err := w.Deliveries.Delete(ctx, id)
	return controller.Result{}, err
}

// call is at least once: if the process ends between the call and the note of it, the next one calls again. A receiver that remembers the ids of the
// calls ignores the second one.
func (w *Webhooks) call(ctx context.Context, id string, d Delivery) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, strings.NewReader(d.Body))
	if err != nil {
		return retry.Permanent(err)
	}
	req.Header.Set("Idempotency-Key", id)
	resp, err := w.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return check(resp)
}

// GaveUp notes why a delivery was parked.
func (w *Webhooks) GaveUp(ctx context.Context, id string, why error) error {
	return w.note(ctx, id, func(d *Delivery) { d.Failed = why.Error() })
}

func (w *Webhooks) note(ctx context.Context, id string, change func(*Delivery)) error {
	_, err := store.PatchStatus(ctx, w.Deliveries, id, func(o *store.Object[Delivery]) error {
		change(&o.Value)
		return nil
	})
	return err
}

// NewController returns the controller that delivers: 20 calls at once, two of one receiver, for an hour.
func (w *Webhooks) NewController(receiver func(id string) string) (*controller.Controller[string], error) {
	cfg := controller.Config[string]{Workers: 20, GaveUp: w.GaveUp}
	cfg.Queue.Group, cfg.Queue.GroupLimit = receiver, 2
	cfg.Queue.MaxElapsed = time.Hour
	return controller.New("webhooks", w.Reconcile, cfg, controller.For(w.Cached))
}
