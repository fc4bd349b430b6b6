package store

import (
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
)

// Precondition has to hold for a write to be accepted. All that are given have to hold. The zero value always holds.
//
// Make one with [IfVersion], [IfUID], [IfTerm] or [Once]. A backend need not look inside: see [Admit].
type Precondition struct {
	asks    question
	version informer.Version
	uid     string
	term    uint64
	request string
}

// question is what a precondition asks for: one bit each.
type question uint8

const (
	askVersion question = 1 << iota
	askUID
	askTerm
)

// IfVersion holds while the stored object has version v. Else the write is refused with [ErrConflict].
func IfVersion(v informer.Version) Precondition { return Precondition{asks: askVersion, version: v} }

// IfUID holds while the stored object has this UID: not the object that was created again under the same key. Else the
// write is refused with [ErrConflict].
func IfUID(uid string) Precondition { return Precondition{asks: askUID, uid: uid} }

// IfTerm holds unless a write with a greater term was accepted before, on any object of any kind in the same database.
// Else the write is refused with [ErrFenced]. Give it the term of a leadership, and a leader that was replaced, and
// does not know it yet, can do no harm once its successor has written.
//
// A write that carries no term is not checked: it passes, whatever terms were seen. Zero is a term like any other.
// A term is seen with every write that is accepted, also with one that had nothing to change.
func IfTerm(term uint64) Precondition { return Precondition{asks: askTerm, term: term} }

// Once gives the write an identity, so that it can be sent again when its acknowledgement was lost: a write whose id
// belongs to a write that was accepted is not applied, and returns what that one returned, before any other precondition
// is looked at. So the object that it returns may be older than the one that is stored. The id has to be unique in the
// database, such as a UUID made for this write; for another operation, kind or key it is refused with [ErrRequest]. A
// write that was refused may be sent again under its id.
//
// A backend remembers the ids of a limited number of writes: see MemoryConfig.Requests. An empty id is none; of several
// the first counts.
func Once(id string) Precondition { return Precondition{request: id} }

// RequestOf returns the id of [Once] among the preconditions, or "". It is for backends, which look for it before they
// call [Admit], and store it in the transaction of the write.
func RequestOf(pre ...Precondition) string {
	for i := range pre {
		if pre[i].request != "" {
			return pre[i].request
		}
	}
	return ""
}

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
// Op is [OpCreate], [OpUpdate], [OpUpdateStatus] or [OpDelete]. For the two updates, give the version and the UID of the
// object that the caller passed, when it is not empty, as preconditions too.
func Admit(op, kind, key string, have Current, pre ...Precondition) (term uint64, err error) {
	refuse := func(want informer.Version, err error) (uint64, error) {
		return have.Term, &Error{Op: op, Kind: kind, Key: key, Have: have.Version, Want: want, Err: err}
	}
	var asked informer.Version
	term = have.Term
	for i := range pre {
		if pre[i].asks&askVersion != 0 {
			asked = pre[i].version
		}
	}
	for i := range pre {
		if pre[i].asks&askTerm == 0 {
			continue
		}
		if pre[i].term < have.Term {
			return have.Term, &Error{
				Op: op, Kind: kind, Key: key,
				Have: have.Version, Want: asked, HaveTerm: have.Term, WantTerm: pre[i].term,
				Err: fmt.Errorf("%w: term %d is over, %d has written", ErrFenced, pre[i].term, have.Term),
			}
		}
		term = max(term, pre[i].term)
	}
	switch exists := have.Version != 0; {
	case exists && op == OpCreate:
		return refuse(asked, ErrExists)
	case !exists && op != OpCreate:
		return refuse(asked, ErrNotFound)
	}
	for i := range pre {
		if pre[i].asks&askUID != 0 && pre[i].uid != have.UID {
			return refuse(asked, fmt.Errorf("%w: UID is %q, not %q", ErrConflict, have.UID, pre[i].uid))
		}
	}
	for i := range pre {
		if pre[i].asks&askVersion != 0 && pre[i].version != have.Version {
			return refuse(pre[i].version,
				fmt.Errorf("%w: version is %d, not %d", ErrConflict, have.Version, pre[i].version))
		}
	}
	return term, nil
}
