package follow

import (
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// patience is how long an expected version keeps its reader looking.
const patience = time.Second

// Expected is the version of a transaction of this process that is about to commit. While it is expected, the [Loop] of a database that does not
// notify looks every few milliseconds: with [Settle], and with the Signal of the zero value. All methods are safe for concurrent use.
type Expected struct {
	// Signal wakes the loops.
	Signal broadcast.Signal

	mu sync.Mutex
	// mu guards the following.
	version informer.Version // the greatest one
	until   time.Time        // when it is no longer expected
}

// Expect wakes the loops, and lets them expect a version for up to a second.
func (x *Expected) Expect(v informer.Version) {
	x.mu.Lock()
	x.version, x.until = max(x.version, v), time.Now().Add(patience)
	x.mu.Unlock()
	x.Signal.Wake()
}

// After reports whether a version after at is expected.
func (x *Expected) After(at informer.Version) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.version > at && time.Now().Before(x.until)
}
