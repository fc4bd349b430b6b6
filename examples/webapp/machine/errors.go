package machine

import "errors"

var (
	// ErrExists means that a replica with this ID is alive.
	ErrExists = errors.New("a replica with this ID exists")

	// ErrInvalid means that a Spec cannot be a replica.
	ErrInvalid = errors.New("invalid spec")

	// ErrNoPID means that a replica cannot be signaled yet: it is being started, and its pid is not on record.
	ErrNoPID = errors.New("its pid is not on record yet")

	// ErrRunning means that Run is already running.
	ErrRunning = errors.New("machine: Run is running")

	// ErrUnhealthy means that a replica did not answer a probe correctly.
	ErrUnhealthy = errors.New("it is not healthy")
)
