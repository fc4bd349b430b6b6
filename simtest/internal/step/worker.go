package step

import (
	"sync"

	"github.com/setpoint-go/setpoint/simtest/internal/sim"
)

// workers are goroutines for reconciles.
type workers struct {
	mu sync.Mutex
	// mu guards the following.
	free []*worker // idle workers
}

// worker is a goroutine for reconciles, one after the other. Its stack has grown by the second one, which saves a tenth of the time of
// a run.
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
	sim.GrowStack()
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
