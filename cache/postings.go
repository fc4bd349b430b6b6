package cache

import (
	"hash/maphash"
	"slices"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// several stands for the bucket in a chunk if the object has more than one posting.
const several = ^uint32(0)

// posting is the membership of an object in a bucket: the id of the bucket plus one, and the place among its members.
type posting struct{ bucket, place uint32 }

// postings keeps which buckets of an index each object of an indexer is in, by the numbers of the objects. Most objects have one value in an
// index, and take eight bytes. Objects without values take nothing, or eight bytes. The postings of an object keep the order in which they
// were set. It is not safe for concurrent use. newPostings makes one.
//
// Invariants: more has the objects with several postings, and no others. Their postings in a chunk have the bucket several.
type postings struct {
	one  []*[chunkSize]posting                // chunks, as those of a table; nil if none of its objects has postings
	more hashtable.Ordered[uint32, []posting] // of objects with several postings
}

// newPostings returns postings with room for a number of objects, which have none yet.
func newPostings(seed maphash.Seed, objects int) postings {
	return postings{
		one:  make([]*[chunkSize]posting, (objects+chunkSize-1)/chunkSize),
		more: hashtable.NewOrdered[uint32, []posting](seed),
	}
}

// of returns the postings of an object, if it has any. The caller may change them, until the next set.
func (p *postings) of(n uint32) []posting {
	at, i := int(n/chunkSize), n%chunkSize
	if at >= len(p.one) || p.one[at] == nil {
		return nil
	}
	switch p.one[at][i].bucket {
	case 0:
		return nil
	case several:
		return p.more.Get(n).Value
	default:
		return p.one[at][i : i+1]
	}
}

// only returns the bucket of an object that has exactly one posting, and 0 for any other object.
func (p *postings) only(n uint32) uint32 {
	if at := int(n / chunkSize); at < len(p.one) && p.one[at] != nil {
		if bucket := p.one[at][n%chunkSize].bucket; bucket != several {
			return bucket
		}
	}
	return 0
}

// in returns the posting of an object in a bucket, or nil. The caller may change its place, until the next set.
func (p *postings) in(n, bucket uint32) *posting {
	ps := p.of(n)
	for i := range ps {
		if ps[i].bucket == bucket {
			return &ps[i]
		}
	}
	return nil
}

// set stores a copy of ps as the postings of an object.
func (p *postings) set(n uint32, ps []posting) {
	at, i := int(n/chunkSize), n%chunkSize
	for at >= len(p.one) {
		p.one = append(p.one, nil)
	}
	if p.one[at] == nil {
		if len(ps) == 0 {
			return
		}
		p.one[at] = new([chunkSize]posting)
	}
	one := &p.one[at][i]
	if one.bucket == several {
		p.more.Remove(p.more.Get(n))
	}
	switch len(ps) {
	case 0:
		*one = posting{}
	case 1:
		*one = ps[0]
	default:
		one.bucket = several
		e, _ := p.more.Push(n, p.more.Hash(n))
		e.Value = slices.Clone(ps)
	}
}
