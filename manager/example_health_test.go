package manager_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/manager"
)

// Ready and Check serve the probes of whatever runs the process.
func ExampleManager_Ready() {
	m, err := manager.New(manager.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{"/readyz": m.Ready, "/healthz": m.Check} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	get := func(path string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Print(path, " ", w.Code, " ", w.Body)
	}

	// A source that does not answer yet.
	answer, listing := make(chan []site), make(chan bool)
	siteKey := func(s site) string { return s.Name }
	source, err := poll.New(func(ctx context.Context) ([]site, error) {
		close(listing)
		select {
		case sites := <-answer:
			return sites, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, siteKey, poll.Config[site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(source, siteKey, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Add(sites)
	started := make(chan bool)
	m.Add(wedged{manager.Func("sites", func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return nil
	})})
	get("/readyz")

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	<-listing
	get("/readyz")
	get("/healthz")
	answer <- nil
	<-started
	get("/readyz")
	get("/healthz")
	cancel()
	fmt.Println(<-ended)
	get("/readyz")
	// Output:
	// /readyz 503 manager: not ready: the manager is new
	// /readyz 503 manager: not ready: the manager is syncing
	// manager: not ready: informer "sites" has not synced
	// /healthz 200 ok
	// /readyz 503 manager: check part "sites": north is in the works since 12:00
	// /healthz 503 manager: check part "sites": north is in the works since 12:00
	// <nil>
	// /readyz 503 manager: not ready: the manager is ended
}

// wedged is a part that is not well.
type wedged struct{ manager.Part }

// Check reports the manager.
func (wedged) Check() error { return errors.New("north is in the works since 12:00") }
