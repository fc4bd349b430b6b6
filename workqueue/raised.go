package workqueue

import "container/heap"

// push puts e in the lane, by its number.
func (n *lane[K]) push(e *entry[K]) {
	if n.line.n > 0 && n.line.pool.at(n.line.last).number > e.number {
		heap.Push(&n.raised, e)
		return
	}
	n.line.push(e)
}

// remove takes e out of the lane.
func (n *lane[K]) remove(e *entry[K]) {
	if e.raised > 0 {
		heap.Remove(&n.raised, int(e.raised)-1)
		return
	}
	n.line.remove(e)
}

// first returns what is next, nil if the lane is empty.
func (n *lane[K]) first() *entry[K] {
	e := n.line.head()
	if len(n.raised) > 0 && (e == nil || n.raised[0].number < e.number) {
		return n.raised[0]
	}
	return e
}

func (n *lane[K]) len() int { return n.line.n + len(n.raised) }

// raised is the keys of a lane whose priority was raised while they were ready: a heap, the lowest number first. It implements
// [heap.Interface]. Invariant: the one in place i has i+1 for raised.
type raised[K comparable] []*entry[K]

func (r raised[K]) Len() int           { return len(r) }
func (r raised[K]) Less(i, j int) bool { return r[i].number < r[j].number }

func (r raised[K]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].raised, r[j].raised = int32(i+1), int32(j+1)
}

// Push implements [heap.Interface].
func (r *raised[K]) Push(x any) {
	e := x.(*entry[K])
	*r = append(*r, e)
	e.raised = int32(len(*r))
}

// Pop implements [heap.Interface].
func (r *raised[K]) Pop() any {
	last := int32(len(*r)) - 1
	e := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	e.raised = 0
	return e
}
