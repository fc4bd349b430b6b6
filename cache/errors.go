package cache

import "errors"

var (
	// ErrName is wrapped by the errors of [ParseName]: the text is neither "name" nor "namespace/name".
	ErrName = errors.New("not a name")

	// ErrClosed is returned by a [DeltaFIFO] that was closed: by Pop and TryPop once nothing waits any more, by the
	// methods that queue something at once.
	ErrClosed = errors.New("cache: delta queue is closed")
)
