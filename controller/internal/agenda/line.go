package agenda

import (
	"fmt"
	"time"
)

// line has the keys that one thing holds, in the order in which it began to hold them. The zero value is empty.
type line struct {
	n           int
	first, last *place
}

// place is the place of a key in a line.
type place struct {
	since       time.Time // when the key became held
	prev, after *place
}

// join puts p at the end of the line, now.
func (l *line) join(p *place) {
	*p = place{since: time.Now(), prev: l.last}
	if l.last == nil {
		l.first = p
	} else {
		l.last.after = p
	}
	l.last = p
	l.n++
}

// leave removes p from the line.
func (l *line) leave(p *place) {
	if p.prev == nil {
		l.first = p.after
	} else {
		p.prev.after = p.after
	}
	if p.after == nil {
		l.last = p.prev
	} else {
		p.after.prev = p.prev
	}
	*p = place{}
	l.n--
}

// group describes the line.
func (l *line) group() Group {
	if l.first == nil {
		return Group{}
	}
	return Group{l.n, l.first.since}
}

// check returns an error if the line does not have n places in the order of their times.
func (l *line) check(n int) error {
	var last *place
	places := 0
	for p := l.first; p != nil; p = p.after {
		if p.prev != last || last != nil && p.since.Before(last.since) {
			return fmt.Errorf("agenda: a place held since %v is not in line", p.since)
		}
		last = p
		places++
	}
	if places != n || l.n != n || l.last != last {
		return fmt.Errorf("agenda: %d keys are held, %d are in line, counted %d", n, places, l.n)
	}
	return nil
}
