package leaderelect_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// A leader publishes its address to followers and to other readers of the store.
func ExampleLeader() {
	leases := memlease.New()
	told := make(chan struct{})
	elector, err := leaderelect.New(leaderelect.Config{
		Store:    leases,
		Key:      "shop-controller",
		Identity: "replica-0",
		Metadata: map[string]string{"address": "10.0.0.7:8080"},
		Logger:   slog.New(slog.DiscardHandler),
		OnNewLeader: func(l leaderelect.Leader) {
			fmt.Println("leader:", l.Identity, "at", l.Metadata["address"])
			close(told)
		},
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			<-told // OnNewLeader has a goroutine of its own
			l, err := leaderelect.Holder(ctx, leases, "shop-controller")
			fmt.Println("holder:", l.Identity, "in term", l.Term, err)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = elector.RunOnce(context.Background())
	_, ok := elector.Leader()
	fmt.Println("still?", ok)
	// Output:
	// leader: replica-0 at 10.0.0.7:8080
	// holder: replica-0 in term 1 <nil>
	// still? false
}
