package workqueue

import (
	"fmt"
)

// CheckInvariants returns what is wrong with the invariants of Queue.mu, by their numbers; nil if nothing is.
func (q *Queue[K]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	inLine := map[*entry[K]]int{}
	for i, e := range q.ready.buf {
		inside := (i-q.ready.first+len(q.ready.buf))%max(1, len(q.ready.buf)) < q.ready.n
		if inside != (e != nil) {
			return fmt.Errorf("2: slot %d of the line: in the line %v, entry %v", i, inside, e)
		}
		if e != nil {
			inLine[e]++
		}
	}
	processing, dirty, queued, delayed := 0, 0, 0, 0
	for k, e := range q.entries {
		switch {
		case e.key != k:
			return fmt.Errorf("1: %v stands under %v", e.key, k)
		case !e.queued && !e.processing && e.slot < 0:
			return fmt.Errorf("1: the entry of %v has no reason to be", k)
		case e.queued != (inLine[e] == 1):
			return fmt.Errorf("2: %v queued %v, %d times in line", k, e.queued, inLine[e])
		case e.queued && e.processing, e.dirty && !e.processing:
			return fmt.Errorf("3: %+v", *e)
		case e.slot >= 0 && q.delayed.heap[e.slot].e != e:
			return fmt.Errorf("5: %v is not in its slot", k)
		case e.backoff && e.slot < 0:
			return fmt.Errorf("5: %v has a backoff without a wake-up", k)
		}
		processing, dirty, queued, delayed = processing+count(e.processing), dirty+count(e.dirty), queued+count(e.queued), delayed+count(e.slot >= 0)
	}
	if queued != q.ready.n {
		return fmt.Errorf("2: %d queued, %d in line", queued, q.ready.n)
	}
	if processing != q.inProcess || dirty != q.dirty {
		return fmt.Errorf("4: %d in process, counted %d; %d dirty, counted %d", processing, q.inProcess, dirty, q.dirty)
	}
	if delayed != len(q.delayed.heap) {
		return fmt.Errorf("5: %d scheduled, %d in the heap", delayed, len(q.delayed.heap))
	}
	for i := range q.delayed.heap {
		if i > 0 && q.delayed.before(i, (i-1)/4) {
			return fmt.Errorf("5: slot %d is before its parent", i)
		}
	}
	if q.shutdown && (q.waiters.first != nil || len(q.delayed.heap) > 0 || q.timer != nil && q.timer.Stop()) {
		return fmt.Errorf("6, 7: something waits after the shutdown")
	}
	if len(q.idle) > 0 && q.isIdleLocked() {
		return fmt.Errorf("8: somebody waits for an idle queue to be idle")
	}
	return nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Kept returns the number of entries, slots and map cells that the queue holds memory for.
func (q *Queue[K]) Kept() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.peak, q.freeLen, len(q.ready.buf), cap(q.delayed.heap))
}
