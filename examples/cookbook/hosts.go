package cookbook

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/manager"
)

// hold stops new reconciles during an incident, and keeps all changes for later. Reconciles in flight continue.
func hold(c *controller.Controller[string], repair func() error) error {
	c.Pause()
	defer c.Resume()
	return repair()
}

// page serves the live page of a manager at an address, and /healthz and /readyz for the probes of a pod. Add it to the manager. A replica that is
// not the leader is ready too.
func page(m *manager.Manager, l net.Listener) (manager.Part, error) {
	handler, err := debug.New(m, debug.Config{})
	serve := func(ctx context.Context) error {
		server := &http.Server{Handler: handler}
		defer context.AfterFunc(ctx, func() { server.Close() })()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	return manager.At(manager.Outer, manager.Func("page", serve)), err
}

// once reconciles everything that is due, and returns: for a host that calls the program instead of running it. A key that waits for a retry is left to
// the next call.
func once(ctx context.Context, m *manager.Manager, c *controller.Controller[string]) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- m.Run(ctx)
	}()
	err := c.WaitIdle(ctx)
	stop()
	return errors.Join(err, <-ended)
}
