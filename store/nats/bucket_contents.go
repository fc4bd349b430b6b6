package nats

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// contents is the keys of a bucket, as its messages up to a version tell: what a consumer of a watch knows at that version.
type contents struct {
	created time.Time       // the stream
	last    map[string]last // by subject, of keys and of markers
	partial bool            // keys are missing, because they are older
	fresh   bool            // a list has read it
	doubt   error           // why it may not be what the consumer knows, or nil
}

// last is the last message of a subject.
type last struct {
	sequence uint64
	stamp    int64 // when it was stored, in nanoseconds; the lowest bit is set if it has a value
}

func lastOf(sequence uint64, stored time.Time, live bool) last {
	stamp := stored.UnixNano() &^ 1
	if live {
		stamp |= 1
	}
	return last{sequence, stamp}
}

func (l last) live() bool { return l.stamp&1 != 0 }

// mostKept is the number of contents that a Bucket keeps for watches to come.
const mostKept = 8

// memory has the contents of lists and ended watches, until a watch goes on from there.
type memory struct {
	mu sync.Mutex
	// mu guards the following.
	kept []kept // in order of time
	anew bool   // the bucket was created again since NewBucket
}

// kept is the contents that n consumers know at a version.
type kept struct {
	at  informer.Version
	has *contents
	n   int
}

// keep adds the contents that a consumer knows at a version.
func (m *memory) keep(at informer.Version, has *contents) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.kept {
		if k := &m.kept[i]; k.at == at && k.has.equal(has) {
			k.n++
			return
		}
	}
	m.kept = append(m.kept, kept{at, has, 1})
	if len(m.kept) > mostKept {
		m.kept = slices.Delete(m.kept, 0, 1)
	}
}

// equal reports whether two consumers know the same. A doubt is equal only to itself.
func (c *contents) equal(d *contents) bool {
	return c == d || c.doubt == nil && d.doubt == nil && c.created.Equal(d.created) && maps.Equal(c.last, d.last)
}

// take returns the contents that a consumer knows which goes on after a version. Nothing tells which consumer that is. So if several knew
// different contents at that version, each of them is in doubt, and lists again later.
func (m *memory) take(after informer.Version, created time.Time) *contents {
	m.mu.Lock()
	defer m.mu.Unlock()
	if after == 0 { // before the first message
		return &contents{created: created, last: map[string]last{}, fresh: true}
	}
	found := -1
	for i := range m.kept {
		k := &m.kept[i]
		switch {
		case k.at != after:
			continue
		case found < 0:
			found = i
			continue
		}
		for _, has := range []*contents{m.kept[found].has, k.has} {
			has.doubt = fmt.Errorf("%w: consumers know different keys at version %d", informer.ErrExpired, after)
			if m.anew {
				has.doubt = fmt.Errorf("%w: the bucket was created again, and has reached version %d again", informer.ErrNewHistory, after)
			}
		}
	}
	if found < 0 {
		c := &contents{created: created, last: map[string]last{}, partial: true}
		c.doubt = fmt.Errorf("%w: no list and no watch has ended at version %d", informer.ErrExpired, after)
		if m.anew {
			c.doubt = fmt.Errorf("%w: the bucket was created again, and nothing has ended at version %d since", informer.ErrNewHistory, after)
		}
		return c
	}
	k := &m.kept[found]
	if k.n--; k.n > 0 {
		c := *k.has
		c.last = maps.Clone(c.last)
		return &c
	}
	has := k.has
	m.kept = slices.Delete(m.kept, found, found+1)
	return has
}

// restarted records that the bucket was created again.
func (m *memory) restarted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.anew = true
}
