package leaderelect

import "context"

// Sentinel notices when a process is gone or has released, long before its lease has expired: see [Config.Sentinel]. It
// keeps marks, each held by one process at most, that go with the process: an advisory lock of a database session is one,
// and so is a lock of a file. A process that is only stopped still holds its mark.
//
// It is a hint. Whether a mark is there says nothing about who leads, and a Sentinel that fails or hangs costs time alone.
// With FencedWork, one that says of a mark that is held that it is gone makes leaders change for nothing, up to once for
// each elector in a LeaseDuration.
//
// Both methods may be called by many goroutines at once. A call returns soon after its ctx has ended.
type Sentinel interface {
	// Hold takes a mark, calls held, and holds the mark until ctx ends or the mark is lost. It returns why. The mark is
	// a random text that nobody has held before, and nobody will hold again.
	Hold(ctx context.Context, mark string, held func()) error

	// Gone returns nil when nobody holds the mark. While somebody does it blocks. It is asked about marks only that
	// have been held.
	Gone(ctx context.Context, mark string) error
}
