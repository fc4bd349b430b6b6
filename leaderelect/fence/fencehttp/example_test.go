package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/store"
)

// A leader calls a service. Its successor calls too. From then on, the service refuses the first one, which does not know yet.
func Example() {
	server, err := fencehttp.NewServer(fencehttp.ServerConfig{
		Lease: func(*http.Request) string { return "shop-controller" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := server.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		leader, _ := store.FenceFrom(r.Context())
		fmt.Printf("the service does %q in term %d\n", text, leader.Term)
	}))

	// In your program, Base is nil, and the contexts are those of OnStartedLeading or Reconcile.
	client := &http.Client{Transport: &fencehttp.Transport{Base: direct{service}}}
	send := func(ctx context.Context, order string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example/orders", strings.NewReader(order))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return fencehttp.Check(resp)
	}
	first, depose := leaderelect.Appoint(context.Background(), "shop-controller", 6)
	second, resign := leaderelect.Appoint(context.Background(), "shop-controller", 7)
	defer resign(nil)
	fmt.Println(send(first, "blue"))
	fmt.Println(send(second, "green"))
	err = send(first, "red")
	fmt.Println(err, errors.Is(err, fence.ErrStale))

	depose(leaderelect.ErrLeaseTaken) // now it knows
	fmt.Println(send(first, "red"))
	fmt.Println(send(context.Background(), "red"))
	// Output:
	// the service does "blue" in term 6
	// <nil>
	// the service does "green" in term 7
	// <nil>
	// fence: lease "shop-controller": term 6 after term 7: term is stale true
	// Post "http://service.example/orders": fencehttp: not sent, term 6 of lease "shop-controller" is over: leaderelect: lease was taken by another
	// Post "http://service.example/orders": fencehttp: the context carries no leadership
}

// A service that has restarted has forgotten the terms. Before it serves, it reads the term from the lease. A leader of a later term cannot
// have called the service before.
func ExampleServer_Guard() {
	leases := memlease.New() // in your program, the store of the electors
	for range 7 {
		elector, err := leaderelect.New(leaderelect.Config{
			Store: leases, Key: "shop-controller",
			OnStartedLeading: func(context.Context, *leaderelect.Leadership) error { return nil },
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := elector.RunOnce(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
	}

	server, err := fencehttp.NewServer(fencehttp.ServerConfig{
		Lease: func(*http.Request) string { return "shop-controller" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch lease, err := leases.Get(context.Background(), "shop-controller"); {
	case errors.Is(err, leaderelect.ErrNotFound): // there was no leader yet
	case err != nil:
		fmt.Println(err) // do not serve
		return
	default:
		fmt.Println("the term is", lease.Term, server.Guard("shop-controller").Raise(lease.Term))
	}

	former, depose := leaderelect.Appoint(context.Background(), "shop-controller", 6)
	defer depose(nil)
	client := &http.Client{Transport: &fencehttp.Transport{Base: direct{server.Wrap(http.NotFoundHandler())}}}
	req, err := http.NewRequestWithContext(former, http.MethodDelete, "http://service.example/orders", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Print(string(text))
	fmt.Println(resp.Status, resp.Header.Get("Leader-Term"), err)
	// Output:
	// the term is 7 <nil>
	// {"type":"https://pkg.go.dev/github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp#stale","title":"Precondition Failed","status":412,"detail":"fence: lease \"shop-controller\": term 6 after term 7: term is stale","lease":"shop-controller","term":"6","have":"7"}
	// 412 Precondition Failed 7 <nil>
}
