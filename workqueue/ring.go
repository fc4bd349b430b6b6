package workqueue

// ring is the line of the keys that are ready, first in, first out. The zero value is empty.
type ring[K comparable] struct {
	buf   []*entry[K] // its length is zero or a power of two; slots outside the line are nil
	first int
	n     int
}

func (r *ring[K]) len() int { return r.n }

func (r *ring[K]) push(e *entry[K]) {
	if r.n == len(r.buf) {
		r.resize(max(8, 2*r.n))
	}
	r.buf[(r.first+r.n)&(len(r.buf)-1)] = e
	r.n++
}

// pop takes the first entry off a line that is not empty.
func (r *ring[K]) pop() *entry[K] {
	e := r.buf[r.first]
	r.buf[r.first] = nil
	r.first = (r.first + 1) & (len(r.buf) - 1)
	r.n--
	if len(r.buf) > keep && r.n <= len(r.buf)/4 {
		r.resize(len(r.buf) / 2)
	}
	return e
}

func (r *ring[K]) resize(size int) {
	buf := make([]*entry[K], size)
	n := copy(buf, r.buf[r.first:min(r.first+r.n, len(r.buf))])
	copy(buf[n:], r.buf[:r.n-n])
	r.buf, r.first = buf, 0
}
