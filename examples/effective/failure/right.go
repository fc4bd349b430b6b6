package failure

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// errTooEarly means that the next order has to wait.
var errTooEarly = errors.New("the last order failed")

// NewRight returns a controller that keeps the budget of each certificate in its status.
func NewRight(certs store.Store[Certificate], authority Authority) (*controller.Controller[string], error) {
	cached, err := informer.New(certs, store.Key, informer.Config{Name: "certs"})
	if err != nil {
		return nil, err
	}
	return controller.New("certs", func(ctx context.Context, key string) (controller.Result, error) {
		cert, ok := cached.Get(key)
		if !ok || cert.Value.Status.Issued == cert.Value.Domain {
			return controller.Result{}, nil
		}
		status := cert.Value.Status
		if status.Generation != cert.Generation { // the user has changed the certificate: a new budget
			status = Status{Issued: status.Issued, Generation: cert.Generation}
		}
		if early := time.Until(status.NotBefore); early > 0 {
			return controller.Result{}, retry.NotYet(errTooEarly, early)
		}
		status.NotBefore = time.Now().Add(time.Hour << min(status.Attempts, 5)) // 1 h, 2 h, ... 32 h
		status.Attempts++
		cert.Value.Status = status
		cert, err := certs.UpdateStatus(ctx, cert) // before the order: a crash does not give the attempt back
		if err != nil {
			return controller.Result{}, err
		}
		if err := authority.Order(ctx, cert.Value.Domain); err != nil {
			cert.Value.Status.Reason = err.Error()
			_, failed := certs.UpdateStatus(ctx, cert)
			return controller.Result{}, errors.Join(retry.NotYet(err, time.Until(status.NotBefore)), failed)
		}
		cert.Value.Status = Status{Issued: cert.Value.Domain, Generation: cert.Generation}
		_, err = certs.UpdateStatus(ctx, cert)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}
