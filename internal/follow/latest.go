package follow

import (
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// Latest lets watches that ask for the version of a database at about the same time share one query. It is safe for concurrent use.
type Latest struct {
	mu sync.Mutex
	// mu guards the following.
	version informer.Version // as of asked
	asked   time.Time
}

// Get returns a version that is younger than an age. If it knows none, it reads one.
func (l *Latest) Get(age time.Duration, read func() (informer.Version, error)) (informer.Version, error) {
	l.mu.Lock()
	version, fresh := l.version, time.Since(l.asked) < age
	l.mu.Unlock()
	if fresh {
		return version, nil
	}
	asked := time.Now()
	version, err := read()
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if asked.After(l.asked) { // an older answer would make the watches that have passed it read again
		l.version, l.asked = version, asked
	}
	return version, nil
}

// PrefixEnd returns the least text that is greater than all that begin with a prefix, or "" if there is none.
func PrefixEnd(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return string(end[:i+1])
		}
	}
	return ""
}
