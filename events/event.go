package events

import "time"

// Event is something that happened to an object, once or several times.
type Event struct {
	About   Ref
	Type    Type
	Reason  string // one word in CamelCase
	Message string // a sentence for people, of 1024 bytes at most

	Count       int       // how often it happened; at least 1
	First, Last time.Time // when it happened first and last
}

// Ref says which object an event is about. The UID may be empty, when it does not matter or there is none.
type Ref struct {
	Kind, Key, UID string
}

// Type is a sort of event.
type Type int

const (
	Normal  Type = iota + 1 // all is well: what was done
	Warning                 // somebody should look: what could not be done
)

// String returns the name of t.
func (t Type) String() string {
	switch t {
	case Normal:
		return "Normal"
	case Warning:
		return "Warning"
	default:
		return "Unknown"
	}
}
