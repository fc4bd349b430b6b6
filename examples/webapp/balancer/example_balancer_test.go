package balancer_test

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

// greet is a backend that says one word to each connection.
func greet(word string) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	// Ends when the listener is closed.
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, word)
			c.Close()
		}
	}()
	return l
}

func hear(addr net.Addr) string {
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	word, _ := io.ReadAll(c)
	return string(word)
}

// Connections go to the backends in turn; a backend that has gone is skipped.
func ExampleBalancer() {
	hello, hi := greet("hello"), greet("hi")
	defer hello.Close()

	b, err := balancer.Listen("127.0.0.1:0", balancer.Config{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%q\n", hear(b.Addr())) // no backend yet
	b.SetBackends([]string{hello.Addr().String(), hi.Addr().String()})
	fmt.Println(hear(b.Addr()), hear(b.Addr()), hear(b.Addr()))
	hi.Close()
	fmt.Println(hear(b.Addr()), hear(b.Addr()))
	fmt.Println(b.Close(context.Background()))
	// Output:
	// ""
	// hello hi hello
	// hello hello
	// <nil>
}

// A set receives the desired state repeatedly.
func ExampleSet() {
	hello := greet("hello")
	defer hello.Close()

	set, err := balancer.NewSet(balancer.Config{})
	if err != nil {
		panic(err)
	}
	backends := []string{hello.Addr().String()}
	fmt.Println(set.Ensure("blue", 0, backends), set.Ensure("blue", 0, backends), set.Ensure("red", 0, backends))
	fmt.Println(set.Names())
	if b, ok := set.Get("blue"); ok {
		fmt.Println(hear(b.Addr()))
	}
	set.Remove("red")
	fmt.Println(set.Names())
	fmt.Println(set.Close(context.Background()))
	// Output:
	// <nil> <nil> <nil>
	// [blue red]
	// hello
	// [blue]
	// <nil>
}
