package httplist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/informer/poll/httplist"
)

// The API answers "not modified" while nothing has changed, which costs no decoding.
func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, `[{"name": "ulm"}, {"name": "bonn"}]`)
	}))
	defer server.Close()

	type Site struct{ Name string }
	decode := func(page []byte) (sites []Site, next string, err error) {
		err = json.Unmarshal(page, &sites)
		return sites, "", err // the API has no pages
	}
	api, err := httplist.New(server.URL, decode, httplist.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := poll.New(api.List, func(s Site) string { return s.Name }, poll.Config[Site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		list, err := source.List(context.Background()) // an informer does this, and polls
		fmt.Println(list.Items, err)
	}
	_, err = api.List(context.Background())
	fmt.Println(errors.Is(err, poll.ErrUnchanged))
	// Output:
	// [{ulm} {bonn}] <nil>
	// [{ulm} {bonn}] <nil>
	// true
}
