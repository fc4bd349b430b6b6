package cache

import (
	"hash/maphash"
	"slices"
)

// posting is the membership of an object in a bucket: the bucket by its id plus one, and the place among its members.
type posting struct{ bucket, place uint32 }

// several stands in the place of the one posting of an object that has more.
const several = ^uint32(0)

// postings holds the postings of objects by their number, those of one object in the order of its values. Most objects
// have one value in an index: eight bytes.
type postings struct {
	one  []*[chunkSize]posting   // nil pointers for objects without
	more line[uint32, []posting] // what does not fit there
}

func newPostings(seed maphash.Seed, objects int) postings {
	return postings{
		one:  make([]*[chunkSize]posting, (objects+chunkSize-1)/chunkSize),
		more: newLine[uint32, []posting](seed),
	}
}

// of returns the postings of an object, which may be none. They may be written to.
func (p *postings) of(n uint32) []posting {
	at, i := int(n/chunkSize), n%chunkSize
	if at >= len(p.one) || p.one[at] == nil {
		return nil
	}
	switch p.one[at][i].bucket {
	case 0:
		return nil
	case several:
		return p.more.get(n).v
	default:
		return p.one[at][i : i+1]
	}
}

// in returns the posting of an object in a bucket, or nil.
func (p *postings) in(n, bucket uint32) *posting {
	ps := p.of(n)
	for i := range ps {
		if ps[i].bucket == bucket {
			return &ps[i]
		}
	}
	return nil
}

// set makes a copy of ps the postings of an object.
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
		p.more.remove(p.more.get(n))
	}
	switch len(ps) {
	case 0:
		*one = posting{}
	case 1:
		*one = ps[0]
	default:
		one.bucket = several
		e, _ := p.more.push(n, p.more.hash(n))
		e.v = slices.Clone(ps)
	}
}
