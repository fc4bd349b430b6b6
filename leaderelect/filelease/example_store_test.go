//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelease_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
)

// Processes of one host share a directory.
func ExampleStore() {
	dir, err := os.MkdirTemp("", "leases")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	here, _ := filelease.New(dir)
	e, err := here.Create(ctx, leaderelect.Entry{Key: "shop/controller", Value: []byte("here"), Term: 1})
	fmt.Println(err)

	there, _ := filelease.New(dir) // in another process
	e.Value = []byte("there")
	_, err = there.Update(ctx, e)
	fmt.Println(err)

	_, err = here.Update(ctx, e)
	fmt.Println(errors.Is(err, leaderelect.ErrConflict))
	// Output:
	// <nil>
	// <nil>
	// true
}
