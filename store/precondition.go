package store

import (
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
)

// Precondition has to hold for a write to be accepted. All that are given have to hold. The zero value always holds.
//
// Make one with [IfVersion], [IfUID] or [IfTerm]. A backend need not look inside: see [Admit].
type Precondition struct {
	version *informer.Version
	uid     *string
	term    *uint64
}

// IfVersion holds while the stored object has version v. Else the write is refused with [ErrConflict].
func IfVersion(v informer.Version) Precondition { return Precondition{version: &v} }

// IfUID holds while the stored object has this UID: not the object that was created again under the same key. Else the
// write is refused with [ErrConflict].
func IfUID(uid string) Precondition { return Precondition{uid: &uid} }

// IfTerm holds unless a write with a greater term was accepted before, on any object of any kind in the same database.
// Else the write is refused with [ErrFenced]. Give it the term of a leadership, and a leader that was replaced, and
// does not know it yet, can do no harm once its successor has written.
//
// A write that carries no term is not checked: it passes, whatever terms were seen. Zero is a term like any other.
// A term is seen with every write that is accepted, also with one that had nothing to change.
func IfTerm(term uint64) Precondition { return Precondition{term: &term} }

// Current is what a backend holds in the moment of a write.
type Current struct {
	Version informer.Version // of the object; zero when there is none under the key
	UID     string           // of the object
	Term    uint64           // the greatest term that any accepted write to the database carried
}

// Admit decides about a write, so that every backend decides alike. It returns nil or the [*Error] to return, and the
// greatest term seen, to be stored together with the write. Whoever calls it has to see to it that nothing changes
// between the reading of have and the write.
//
// Op is [OpCreate], [OpUpdate] or [OpDelete]. For an Update, give the version and the UID of the object that the caller
// passed, when it is not empty, as preconditions too.
func Admit(op, kind, key string, have Current, pre ...Precondition) (term uint64, err error) {
	refuse := func(want informer.Version, err error) (uint64, error) {
		return have.Term, &Error{Op: op, Kind: kind, Key: key, Have: have.Version, Want: want, Err: err}
	}
	term = have.Term
	for _, p := range pre {
		if p.term == nil {
			continue
		}
		if *p.term < have.Term {
			return refuse(0, fmt.Errorf("%w: term %d is over, %d has written", ErrFenced, *p.term, have.Term))
		}
		term = max(term, *p.term)
	}
	switch exists := have.Version != 0; {
	case exists && op == OpCreate:
		return refuse(0, ErrExists)
	case !exists && op != OpCreate:
		return refuse(0, ErrNotFound)
	}
	for _, p := range pre {
		if p.uid != nil && *p.uid != have.UID {
			return refuse(0, fmt.Errorf("%w: UID is %q, not %q", ErrConflict, have.UID, *p.uid))
		}
	}
	for _, p := range pre {
		if p.version != nil && *p.version != have.Version {
			return refuse(*p.version, fmt.Errorf("%w: version is %d, not %d", ErrConflict, have.Version, *p.version))
		}
	}
	return term, nil
}
