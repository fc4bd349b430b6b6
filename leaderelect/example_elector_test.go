package leaderelect_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// Two replicas compete. The first leads until its caller cancels, then drains and releases the lease. The second leads next.
func ExampleElector() {
	leases := memlease.New() // in production, one that all replicas can reach
	for _, replica := range []string{"replica-0", "replica-1"} {
		ctx, cancel := context.WithCancel(context.Background())
		elector, err := leaderelect.New(leaderelect.Config{
			Store:           leases,
			Key:             "shop-controller",
			Identity:        replica,
			ReleaseOnCancel: true,
			Logger:          slog.New(slog.DiscardHandler),
			OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
				fmt.Println(replica, "leads in term", l.Term())
				cancel() // as a signal would
				<-ctx.Done()
				fmt.Println(replica, "drains; may it still write?", l.Err() == nil)
				return nil
			},
			OnStoppedLeading: func(_ *leaderelect.Leadership, cause error) {
				fmt.Println(replica, "has stopped:", cause)
			},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := elector.Run(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// replica-0 leads in term 1
	// replica-0 drains; may it still write? true
	// replica-0 has stopped: context canceled
	// replica-1 leads in term 2
	// replica-1 drains; may it still write? true
	// replica-1 has stopped: context canceled
}

// The error for an invalid Config names every field that is wrong.
func ExampleConfig() {
	_, err := leaderelect.New(leaderelect.Config{
		Store:            memlease.New(),
		OnStartedLeading: func(context.Context, *leaderelect.Leadership) error { return nil },
		RequestTimeout:   time.Minute,
	})
	fmt.Println(err)
	// Output:
	// leaderelect: new elector: Config.Key is required; Config.RequestTimeout is 1m0s, must be less than RenewDeadline, which defaults to 10s
}
