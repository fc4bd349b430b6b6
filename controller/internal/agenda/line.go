package agenda

import (
	"container/list"
	"fmt"
	"time"
)

// line has the keys that one thing holds, in the order in which it began to hold them. The zero value is empty.
type line struct{ times list.List }

// place is the place of a key in a line. Its value is the time at which the key became held.
type place = list.Element

// join returns a new place at the end of the line, as of now.
func (l *line) join() *place { return l.times.PushBack(time.Now()) }

// leave removes a place from the line.
func (l *line) leave(p *place) { l.times.Remove(p) }

// since returns when the key at a place became held, or zero if p is nil.
func since(p *place) time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.Value.(time.Time)
}

// group describes the line.
func (l *line) group() Group { return Group{l.times.Len(), since(l.times.Front())} }

// check returns an error if the line does not have n places in the order of their times.
func (l *line) check(n int) error {
	for p := l.times.Front(); p != nil; p = p.Next() {
		if since(p).Before(since(p.Prev())) {
			return fmt.Errorf("agenda: a place held since %v is not in line", since(p))
		}
	}
	if l.times.Len() != n {
		return fmt.Errorf("agenda: %d keys are held, %d are in line", n, l.times.Len())
	}
	return nil
}
