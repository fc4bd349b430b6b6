package fencegrpc_test

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencegrpc"
	"github.com/setpoint-go/setpoint/store"
)

// A leader calls a service. Its successor calls too. From then on, the service refuses the first one, which does not know yet.
func Example() {
	server, err := fencegrpc.NewServer(fencegrpc.ServerConfig{
		Lease: func(context.Context, string) string { return "shop-controller" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var client fencegrpc.Client
	conn, stop := serve(
		&handlers{order: func(ctx context.Context, order string) (string, error) {
			leader, _ := store.FenceFrom(ctx)
			fmt.Printf("the service does %q in term %d\n", order, leader.Term)
			return "", nil
		}},
		[]grpc.ServerOption{grpc.ChainUnaryInterceptor(server.Unary), grpc.ChainStreamInterceptor(server.Stream)},
		grpc.WithChainUnaryInterceptor(client.Unary), grpc.WithChainStreamInterceptor(client.Stream),
	)
	defer stop()

	// In your program, the contexts are those of OnStartedLeading or Reconcile.
	first, depose := leaderelect.Appoint(context.Background(), "shop-controller", 6)
	second, resign := leaderelect.Appoint(context.Background(), "shop-controller", 7)
	defer resign(nil)
	_, err = call(first, conn, order, "blue")
	fmt.Println(err)
	_, err = call(second, conn, order, "green")
	fmt.Println(err)
	_, err = call(first, conn, order, "red")
	fmt.Println(err, errors.Is(err, fence.ErrStale), status.Code(err))

	depose(leaderelect.ErrLeaseTaken) // now it knows
	_, err = call(first, conn, order, "red")
	fmt.Println(err)
	// Output:
	// the service does "blue" in term 6
	// <nil>
	// the service does "green" in term 7
	// <nil>
	// fence: lease "shop-controller": term 6 after term 7: term is stale true FailedPrecondition
	// fencegrpc: /shop.Shop/Order: not sent, term 6 of lease "shop-controller" is over: leaderelect: lease was taken by another
}
