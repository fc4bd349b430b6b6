package debug_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/manager"
)

// The page of a manager is mounted under any prefix. Serve it at an address of this machine, such as localhost:6060.
func ExampleHandler() {
	c, err := controller.New("sites", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := manager.New(manager.Config{}, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := debug.New(m, debug.Config{Title: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Add(manager.At(manager.Outer, page)); err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", page))
	fmt.Println(get(mux, "http://localhost:6060/debug/healthz?verbose"))
	// Output:
	// [+]manager ok
	// [+]debug ok
	// [+]sites ok
	// healthz check passed
}

// A Guard decides who may see the page from elsewhere.
func ExampleConfig() {
	page, err := debug.New(nil, debug.Config{
		Guard: func(r *http.Request) bool {
			_, password, ok := r.BasicAuth()
			return ok && password == "secret" // compare a real one in constant time
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(get(page, "http://shop.example/"))
	// Output: This page needs authentication.
}

// get returns the body of a response to a request from this machine.
func get(h http.Handler, url string) string {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}
