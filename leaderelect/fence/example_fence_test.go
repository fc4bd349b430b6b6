package fence_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
)

// A service accepts calls of the newest leader only. The leader sends its term along with each message. For HTTP and gRPC, packages
// fencehttp and fencegrpc do this.
func ExampleGuard() {
	var guard fence.Guard
	receive := func(term uint64, order string) error {
		return guard.Do(context.Background(), term, func(context.Context) error {
			fmt.Println(order, "done in term", term)
			return nil
		})
	}
	fmt.Println(receive(6, "blue"))
	fmt.Println(receive(7, "green"))
	fmt.Println(receive(6, "red"))
	// Output:
	// blue done in term 6
	// <nil>
	// green done in term 7
	// <nil>
	// fence: term 6 after term 7: term is stale
}

// A leader that reads bars earlier leaders, so they cannot change the value afterward.
func ExampleRegister() {
	var target fence.Register[int]
	fmt.Println(target.Write(1, 10))
	n, err := target.Read(2) // the next leader
	fmt.Println(n, err)
	fmt.Println(target.Write(1, 99)) // the one before was paused
	fmt.Println(target.Write(2, n+1))
	value, term := target.Peek()
	fmt.Println(value, "of term", term)
	// Output:
	// <nil>
	// 10 <nil>
	// fence: term 1 after term 2: term is stale
	// <nil>
	// 11 of term 2
}
