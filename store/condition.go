package store

import "time"

// Condition is one thing that a controller says about an object, in its status: whether it is so, since when, and why.
type Condition struct {
	Type string // what it is about, such as "Ready"
	OK   bool   // whether it is so

	Reason  string // why, in one word for programs, such as "ImagePullFailed"
	Message string // why, for people

	// Generation is the Object.Generation that was looked at. If it is less than that of the object, the condition is about
	// an object that somebody has changed since.
	Generation int64

	// Since is when OK last changed. Set sees to it.
	Since time.Time
}

// Conditions are what the status of an object says, one of each Type, in the order in which they came. The zero value is
// ready to use.
type Conditions []Condition

// Set puts c in the place of the condition of its type, or adds it. Since is the time of now if OK differs from before, or
// nothing was said before; else it stays as it was, and what c says there is ignored. Set reports whether anything has
// changed. It changes no array that others may share, so a copy of Conditions stays as it was.
func (cs *Conditions) Set(c Condition) (changed bool) {
	next := make(Conditions, len(*cs), len(*cs)+1)
	copy(next, *cs)
	for i, was := range next {
		if was.Type != c.Type {
			continue
		}
		if c.Since = was.Since; c.OK != was.OK {
			c.Since = now()
		}
		if c == was {
			return false
		}
		next[i] = c
		*cs = next
		return true
	}
	c.Since = now()
	*cs = append(next, c)
	return true
}

// Get returns the condition of a type. False means that nothing is said about it.
func (cs Conditions) Get(conditionType string) (Condition, bool) {
	for _, c := range cs {
		if c.Type == conditionType {
			return c, true
		}
	}
	return Condition{}, false
}

// AllOK reports whether the conditions of all these types are said to be so, of a generation or a later one. Without types
// it is about all that are there, and there has to be one.
func (cs Conditions) AllOK(generation int64, types ...string) bool {
	if len(types) == 0 {
		for _, c := range cs {
			types = append(types, c.Type)
		}
	}
	for _, t := range types {
		if c, _ := cs.Get(t); !c.OK || c.Generation < generation {
			return false
		}
	}
	return len(types) > 0
}
