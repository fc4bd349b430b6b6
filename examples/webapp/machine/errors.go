package machine

import "errors"

var (
	// ErrExists says that a replica with this ID is alive.
	ErrExists = errors.New("a replica with this ID exists")

	// ErrInvalid says that a Spec cannot be a replica.
	ErrInvalid = errors.New("invalid spec")

	// ErrNoPID says that a replica cannot be signalled yet: it is being started, and its pid is not on record.
	ErrNoPID = errors.New("its pid is not on record yet")

	// ErrRunning says that Run was called while it runs.
	ErrRunning = errors.New("machine: Run is running")

	// ErrUnhealthy says that a replica did not answer a probe as it should.
	ErrUnhealthy = errors.New("it is not healthy")
)
