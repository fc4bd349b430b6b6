package wait_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-go/setpoint/wait"
)

// Two loops of one component: both have ended when Wait returns, and what went wrong is known.
func ExampleGroup() {
	var g wait.Group
	g.Start(context.Background(), func(context.Context) error { return errors.New("no route") })
	g.Start(context.Background(), func(context.Context) error { panic("boom") })
	fmt.Println(g.Wait())
	// Output:
	// no route
	// panic: boom
}

// A third-party handler must not crash the program. Its stack is reported with the error.
func ExamplePanicError() {
	err := wait.Call(context.Background(), func(context.Context) error {
		var handler func()
		handler()
		return nil
	})
	var p *wait.PanicError
	if errors.As(err, &p) {
		fmt.Println(p)
		fmt.Println(strings.HasPrefix(string(p.Stack), "goroutine"))
	}
	// Output:
	// panic: runtime error: invalid memory address or nil pointer dereference
	// true
}

// Six machines, two at a time. Two fail.
func ExampleParallelize() {
	machines := []string{"a", "b", "c", "d", "e", "f"}
	err := wait.Parallelize(context.Background(), 2, len(machines), func(_ context.Context, i int) error {
		switch machines[i] {
		case "b":
			return errors.New("b: disk full")
		case "d":
			return errors.New("d: no route")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// b: disk full
	// d: no route
}
