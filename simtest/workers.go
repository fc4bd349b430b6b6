package simtest

import (
	"sync"
	"time"
)

// workers are goroutines for reconciles and functions of the world.
type workers struct {
	mu sync.Mutex
	// mu guards the following.
	free []*worker // idle workers
}

// worker is a goroutine that does one thing after the other. Its stack grows only once, which saves a tenth of the time of a run.
type worker struct {
	tasks chan func()
	done  chan struct{} // of capacity 1
}

// begin has a worker do something, and returns a channel that receives when the worker has ended, be it by Goexit. The caller waits for
// that.
func (ws *workers) begin(do func()) (done <-chan struct{}) {
	ws.mu.Lock()
	var w *worker
	if n := len(ws.free); n > 0 {
		w, ws.free = ws.free[n-1], ws.free[:n-1]
	}
	ws.mu.Unlock()
	if w == nil {
		w = &worker{make(chan func()), make(chan struct{}, 1)}
		go w.run(ws) // ends with the run, or by a Goexit of what it does, as at the end of a process
	}
	w.tasks <- do
	return w.done
}

func (w *worker) run(ws *workers) {
	growStack()
	busy := false
	defer func() {
		if busy { // a Goexit
			w.done <- struct{}{}
		}
	}()
	for do := range w.tasks {
		busy = true
		do()
		busy = false
		ws.mu.Lock()
		ws.free = append(ws.free, w)
		ws.mu.Unlock()
		w.done <- struct{}{}
	}
}

// dismiss ends the workers, all of which are idle.
func (ws *workers) dismiss() {
	for _, w := range ws.free {
		close(w.tasks)
	}
	ws.free = nil
}

// limitTimer tells when something takes longer than the longest time that the run waits. It is used for one thing after the other.
type limitTimer struct{ timer *time.Timer }

// start returns a channel that receives when what begins now takes too long.
func (l *limitTimer) start() <-chan time.Time {
	if l.timer == nil {
		l.timer = time.NewTimer(longest)
	} else {
		l.timer.Reset(longest)
	}
	return l.timer.C
}

func (l *limitTimer) stop() { l.timer.Stop() }
