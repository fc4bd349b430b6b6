// Package web makes requests, and gives them their contexts later.
package web

import (
	"context"
	"net/http"

	"github.com/setpoint-go/setpoint/controller"
)

func request(url string) (*http.Request, error) { return http.NewRequest("GET", url, nil) }

func send(ctx context.Context, key string) (controller.Result, error) {
	r, err := request(key)
	if err != nil {
		return controller.Result{}, err
	}
	_, err = http.DefaultClient.Do(r.WithContext(ctx))
	return controller.Result{}, err
}
