package waiters_test

import (
	"errors"
	"testing"

	"github.com/setpoint-go/setpoint/controller/internal/waiters"
)

func always() bool { return true }

func TestWaiterIsAnsweredOnceByLaterReconcile(t *testing.T) {
	var ws waiters.Keys[string]
	if ws.Any() {
		t.Error("ws.Any() = true, want false")
	}
	ready := false
	w := waiters.New(func() bool { return ready })
	ws.Begin("a") // before anybody waits
	ws.Enter("a", w)
	if !ws.Any() {
		t.Error("ws.Any() = false, want true")
	}
	ready = true
	ws.End("a", true, nil).Tell()
	if len(w.Done()) != 0 {
		t.Errorf("len(w.Done()) = %d, want 0: it began before", len(w.Done()))
	}

	ready = false
	ws.Begin("a")
	ready = true
	if ws.Served(w) {
		t.Error("ws.Served(w) = true, want false")
	}
	ws.End("a", true, nil).Tell()
	if len(w.Done()) != 0 {
		t.Errorf("len(w.Done()) = %d, want 0: it was not ready", len(w.Done()))
	}

	ws.Begin("b")
	ws.End("b", true, nil).Tell()
	if len(w.Done()) != 0 {
		t.Errorf("len(w.Done()) = %d, want 0: another key", len(w.Done()))
	}

	ws.Begin("a")
	if !ws.Served(w) {
		t.Error("ws.Served(w) = false, want true")
	}
	ws.End("a", false, errors.New("it is added again")).Tell()
	if len(w.Done()) != 0 {
		t.Errorf("len(w.Done()) = %d, want 0", len(w.Done()))
	}
	if ws.Served(w) {
		t.Error("ws.Served(w) = true, want false")
	}

	ws.Begin("a")
	ws.End("a", true, errors.New("given up")).Tell()
	if !ws.Served(w) {
		t.Error("ws.Served(w) = false, want true")
	}
	if err := <-w.Done(); err == nil || err.Error() != "given up" {
		t.Fatalf("<-w.Done() = %v, want the error %q", err, "given up")
	}
	ws.Begin("a")
	ws.End("a", true, nil).Tell()
	if len(w.Done()) != 0 {
		t.Errorf("len(w.Done()) = %d, want 0: once", len(w.Done()))
	}
	ws.Leave("a", w)
	if ws.Any() {
		t.Error("ws.Any() = true, want false")
	}
	if got := ws.Len(); got != 0 {
		t.Errorf("ws.Len() = %d, want 0", got)
	}
}

func TestEveryWaiterIsAnswered(t *testing.T) {
	var ws waiters.Keys[string]
	var all []*waiters.Waiter
	for range 3 {
		all = append(all, waiters.New(always))
		ws.Enter("a", all[len(all)-1])
	}
	ws.Leave("a", all[1])
	if got := ws.Len(); got != 2 {
		t.Errorf("ws.Len() = %d, want 2", got)
	}
	ws.Begin("a")
	told := ws.End("a", true, nil)
	if len(all[0].Done()) != 0 {
		t.Errorf("len(all[0].Done()) = %d, want 0: not before they are notified", len(all[0].Done()))
	}
	told.Tell()
	if err := <-all[0].Done(); err != nil {
		t.Fatalf("<-all[0].Done(): %v", err)
	}
	if err := <-all[2].Done(); err != nil {
		t.Fatalf("<-all[2].Done(): %v", err)
	}
	if len(all[1].Done()) != 0 {
		t.Errorf("len(all[1].Done()) = %d, want 0: it has left", len(all[1].Done()))
	}
}
