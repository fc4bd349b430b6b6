package debug_test

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// mount serves the page of a manager under /debug/.
func mount(m *manager.Manager, mux *http.ServeMux, cfg debug.Config) error {
	page, err := debug.New(m, cfg)
	if err != nil {
		return err
	}
	mux.Handle("/debug/", http.StripPrefix("/debug", page))
	return m.Add(manager.At(manager.Outer, page)) // samples the depth of the queues, even while the page is closed
}

// hasPassword returns a guard that asks for a password.
func hasPassword(password string) func(*http.Request) bool {
	want := sha256.Sum256([]byte(password))
	return func(r *http.Request) bool {
		_, given, ok := r.BasicAuth()
		is := sha256.Sum256([]byte(given))
		return ok && subtle.ConstantTimeCompare(is[:], want[:]) == 1
	}
}

// Site has a secret.
type Site struct {
	Region   string
	Password string
}

// withoutSecrets returns what the page shows of an object.
func withoutSecrets(object any) any {
	if site, ok := object.(store.Object[Site]); ok {
		site.Value.Password = "hidden" // in a copy: the object belongs to the cache
		return site
	}
	return nil // nothing of any other object
}

// newManager returns a manager of one controller, which has nothing to do.
func newManager() (*manager.Manager, error) {
	c, err := controller.New("sites", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{})
	if err != nil {
		return nil, err
	}
	return manager.New(manager.Config{}, c)
}

// The page of a manager is mounted under any prefix. Serve it at an address of this machine, such as localhost:6060.
func ExampleHandler() {
	m, err := newManager()
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	if err := mount(m, mux, debug.Config{Title: "shop"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(get(mux, "http://localhost:6060/debug/healthz?verbose"))
	// Output:
	// [+]manager ok
	// [+]debug ok
	// [+]sites ok
	// healthz check passed
}

// A Guard decides which clients may see the page, from anywhere.
func ExampleConfig() {
	m, err := newManager()
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	err = mount(m, mux, debug.Config{Guard: hasPassword("a long secret"), Redact: withoutSecrets, Actions: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(get(mux, "http://shop.example/debug/"))
	// Output: This page needs authentication.
}

// Redact returns what the page shows of an object.
func ExampleConfig_redact() {
	site := store.Object[Site]{Key: "berlin", Value: Site{Region: "eu", Password: "hunter2"}}
	fmt.Printf("%+v\n", withoutSecrets(site).(store.Object[Site]).Value)
	fmt.Println(site.Value.Password)
	// Output:
	// {Region:eu Password:hidden}
	// hunter2
}

// get returns the body of a response to a request from this machine.
func get(h http.Handler, url string) string {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}
