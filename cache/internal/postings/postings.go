package postings

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// chunkSize is the number of objects whose postings are allocated together.
const chunkSize = 32

// several stands for the bucket in a chunk if the object has more than one posting.
const several = ^uint32(0)

// Posting is the membership of an object in a bucket: the id of the bucket plus one, and the place among its members.
type Posting struct{ Bucket, Place uint32 }

// Table holds the postings of objects, which have numbers. It is not safe for concurrent use. Make one with [New].
//
// Invariants: more has the objects with several postings, and no others. Their postings in a chunk have the bucket several.
type Table struct {
	one  []*[chunkSize]Posting                // a nil pointer for objects without postings
	more hashtable.Ordered[uint32, []Posting] // of objects with several postings
}

// New returns an empty table with room for a number of objects.
func New(seed maphash.Seed, objects int) Table {
	return Table{
		one:  make([]*[chunkSize]Posting, (objects+chunkSize-1)/chunkSize),
		more: hashtable.NewOrdered[uint32, []Posting](seed),
	}
}

// Of returns the postings of an object, if it has any. The caller may change them, until the next Set.
func (t *Table) Of(n uint32) []Posting {
	at, i := int(n/chunkSize), n%chunkSize
	if at >= len(t.one) || t.one[at] == nil {
		return nil
	}
	switch t.one[at][i].Bucket {
	case 0:
		return nil
	case several:
		return t.more.Get(n).Value
	default:
		return t.one[at][i : i+1]
	}
}

// Only returns the bucket of an object that has exactly one posting, and 0 for any other object.
func (t *Table) Only(n uint32) uint32 {
	if at := int(n / chunkSize); at < len(t.one) && t.one[at] != nil {
		if bucket := t.one[at][n%chunkSize].Bucket; bucket != several {
			return bucket
		}
	}
	return 0
}

// In returns the posting of an object in a bucket, or nil. The caller may change its place, until the next Set.
func (t *Table) In(n, bucket uint32) *Posting {
	ps := t.Of(n)
	for i := range ps {
		if ps[i].Bucket == bucket {
			return &ps[i]
		}
	}
	return nil
}

// Set stores a copy of ps as the postings of an object.
func (t *Table) Set(n uint32, ps []Posting) {
	at, i := int(n/chunkSize), n%chunkSize
	for at >= len(t.one) {
		t.one = append(t.one, nil)
	}
	if t.one[at] == nil {
		if len(ps) == 0 {
			return
		}
		t.one[at] = new([chunkSize]Posting)
	}
	one := &t.one[at][i]
	if one.Bucket == several {
		t.more.Remove(t.more.Get(n))
	}
	switch len(ps) {
	case 0:
		*one = Posting{}
	case 1:
		*one = ps[0]
	default:
		one.Bucket = several
		e, _ := t.more.Push(n, t.more.Hash(n))
		e.Value = slices.Clone(ps)
	}
}

// Room returns the number of objects that the table has room for.
func (t *Table) Room() int { return chunkSize * len(t.one) }

// Check returns an error if an invariant does not hold.
func (t *Table) Check() error {
	marked := 0
	for at, c := range t.one {
		for i := range c {
			if c == nil || c[i].Bucket != several {
				continue
			}
			marked++
			if n := uint32(at*chunkSize + i); t.more.Get(n) == nil || len(t.more.Get(n).Value) < 2 {
				return fmt.Errorf("postings: object %d has not several", n)
			}
		}
	}
	if marked != t.more.Len() {
		return fmt.Errorf("postings: %d objects have several, and %d are marked", t.more.Len(), marked)
	}
	return t.more.Check()
}
