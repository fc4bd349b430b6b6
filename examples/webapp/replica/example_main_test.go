package replica_test

import (
	"fmt"
	"os"

	"github.com/setpoint-go/setpoint/examples/webapp/replica"
)

// A program that can be the replica of itself.
func ExampleMain() {
	main := func(args []string) int {
		if len(args) > 0 && args[0] == "replica" {
			return replica.Main(args[1:])
		}
		fmt.Println("the program itself")
		return 0
	}
	os.Args = []string{"program"} // in a program: as the system has set it
	if status := main(os.Args[1:]); status != 0 {
		os.Exit(status)
	}
	// Output: the program itself
}
