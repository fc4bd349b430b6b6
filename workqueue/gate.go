package workqueue

import "time"

// gate is the limit to how fast keys are handed out. A token is taken when a key is handed out, none is reserved before:
// so nothing waits behind keys that are not there, and a burst is never larger than the limiter allows.
type gate struct {
	openAt int64       // the limiter allows nothing before that, as far as is known
	timer  *time.Timer // wakes a worker then; nil until it was needed
}

// recheck is the time after which the limiter is asked again at the latest: it may have been changed since.
const recheck = time.Minute

// passLocked reports whether a key may be handed out now, if one is ready. If not yet, a worker is woken in time.
func (q *Queue[K]) passLocked() bool {
	if !q.order.available() {
		return false
	}
	now := time.Now()
	at := int64(now.Sub(q.start))
	wait := time.Duration(q.gate.openAt - at)
	if wait <= 0 {
		token := q.cfg.HandOut.ReserveN(now, 1)
		wait = token.DelayFrom(now) // never, if there is a burst of nothing
		if wait <= 0 {
			return true
		}
		token.CancelAt(now)
		wait = min(wait, recheck)
		q.gate.openAt = later(at, wait)
	}
	if q.gate.timer == nil {
		q.gate.timer = time.AfterFunc(wait, q.pass)
	} else {
		q.gate.timer.Reset(wait)
	}
	return false
}

// pass is run by the timer.
func (q *Queue[K]) pass() {
	q.mu.Lock()
	w := q.waiterToWakeLocked()
	q.mu.Unlock()
	w.wake()
}
