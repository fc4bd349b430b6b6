package workqueue

import "time"

// gate is the limit to how fast keys are handed out. It holds a place in the limiter for the next key, one at most, so that
// nothing is reserved for keys that are not there.
type gate struct {
	openAt time.Time   // when the place comes up; zero without one
	timer  *time.Timer // wakes a worker then; nil until it was needed
}

// passLocked reports whether a key may be handed out now, if one is ready. If not yet, a worker is woken in time.
func (q *Queue[K]) passLocked() bool {
	if !q.order.available() {
		return false
	}
	now := time.Now()
	if q.gate.openAt.IsZero() {
		place := q.cfg.HandOut.ReserveN(now, 1)
		if !place.OK() { // a burst of nothing: never
			return false
		}
		q.gate.openAt = now.Add(place.DelayFrom(now))
	}
	if wait := q.gate.openAt.Sub(now); wait > 0 {
		if q.gate.timer == nil {
			q.gate.timer = time.AfterFunc(wait, q.pass)
		} else {
			q.gate.timer.Reset(wait)
		}
		return false
	}
	q.gate.openAt = time.Time{}
	return true
}

// pass is run by the timer.
func (q *Queue[K]) pass() {
	q.mu.Lock()
	w := q.waiterToWakeLocked()
	q.mu.Unlock()
	w.wake()
}
