package balancer

import "errors"

var (
	// ErrClosed means that the Set was closed.
	ErrClosed = errors.New("closed")

	// ErrPortTaken means that another program, or another balancer of the Set, listens on the port.
	ErrPortTaken = errors.New("the port is taken")
)
