package failure

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns a controller that relies on the backoff of its queue.
func NewWrong(certs store.Store[Certificate], authority Authority) (*controller.Controller[string], error) {
	cached, err := informer.New(certs, store.Key, informer.Config{Name: "certs"})
	if err != nil {
		return nil, err
	}
	return controller.New("certs", func(ctx context.Context, key string) (controller.Result, error) {
		cert, ok := cached.Get(key)
		if !ok || cert.Value.Status.Issued == cert.Value.Domain {
			return controller.Result{}, nil
		}
		if err := authority.Order(ctx, cert.Value.Domain); err != nil {
			cert.Value.Status.Reason = err.Error() // for the user
			_, failed := certs.UpdateStatus(ctx, cert)
			return controller.Result{}, errors.Join(err, failed) // retried after an exponential backoff
		}
		cert.Value.Status = Status{Issued: cert.Value.Domain}
		_, err := certs.UpdateStatus(ctx, cert)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}
