package bench_test

import (
	binary "container/heap"
	"time"
)

// delayingFloor is a floor with delayed adds: a second map says for each key when it is due, the earliest is on top of a heap of the
// standard library, and a timer runs for it.
type delayingFloor struct {
	*floor
	start time.Time

	// floor.mu guards the following. A wake-up counts if it is due when the map says. Times are nanoseconds after start.
	due     map[string]int64
	wakeups wakeups
	timer   *time.Timer
}

type wakeup struct {
	due int64
	key string
}

func newDelayingFloor() *delayingFloor {
	return &delayingFloor{floor: newFloor(), start: time.Now(), due: make(map[string]int64)}
}

func (f *delayingFloor) AddAfter(key string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := int64(time.Since(f.start) + d)
	if old, ok := f.due[key]; ok && old <= due {
		return
	}
	f.due[key] = due
	binary.Push(&f.wakeups, wakeup{due, key})
	if f.wakeups[0].due == due {
		f.arm(d)
	}
}

func (f *delayingFloor) arm(d time.Duration) {
	if f.timer == nil {
		f.timer = time.AfterFunc(d, f.fire)
		return
	}
	f.timer.Reset(d)
}

func (f *delayingFloor) fire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := int64(time.Since(f.start))
	for len(f.wakeups) > 0 && f.wakeups[0].due <= now {
		w := binary.Pop(&f.wakeups).(wakeup)
		if f.due[w.key] != w.due {
			continue
		}
		delete(f.due, w.key)
		switch f.keys[w.key] {
		case 0:
			f.keys[w.key] = waits
			f.push(w.key)
		case inProcess:
			f.keys[w.key] = inProcessAgain
		}
	}
	if len(f.wakeups) > 0 && !f.shutdown {
		f.arm(time.Duration(f.wakeups[0].due - now))
	}
}

// wakeups implements [binary.Interface].
type wakeups []wakeup

func (w wakeups) Len() int           { return len(w) }
func (w wakeups) Less(i, j int) bool { return w[i].due < w[j].due }
func (w wakeups) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *wakeups) Push(x any)        { *w = append(*w, x.(wakeup)) }

func (w *wakeups) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	*w = (*w)[:last]
	return x
}
