package waiters_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/workqueue/internal/waiters"
)

// The model is a slice of the waiters in order. Each signal is received at once.
func TestListMatchesSlice(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 8))
		var l waiters.List
		var model []*waiters.Waiter
		signaled := func(ws ...*waiters.Waiter) {
			for _, w := range ws {
				w.Wake()
				if len(w.Signal) != 1 {
					t.Fatalf("len(w.Signal) = %d, want 1", len(w.Signal))
				}
				<-w.Signal
				if w.Listed() {
					t.Fatal("w.Listed() = true, want false")
				}
				l.Reuse(w)
			}
		}
		for range 300 {
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				w := l.Add()
				if !w.Listed() {
					t.Fatal("w.Listed() = false, want true")
				}
				if len(w.Signal) != 0 {
					t.Fatalf("len(w.Signal) = %d, want 0", len(w.Signal))
				}
				if slices.Contains(model, w) {
					t.Fatalf("model = %v, want it without %p", model, w)
				}
				model = append(model, w)
			case 4, 5:
				w := l.Next()
				if len(model) == 0 {
					if w != nil {
						t.Fatalf("w = %+v, want nil", w)
					}
					break
				}
				if w != model[0] {
					t.Fatalf("w = %p, want %p", w, model[0])
				}
				model = model[1:]
				signaled(w)
			case 6:
				if len(model) > 0 {
					i := r.IntN(len(model))
					l.Remove(model[i])
					if model[i].Listed() {
						t.Fatal("model[i].Listed() = true, want false")
					}
					l.Reuse(model[i])
					model = slices.Delete(model, i, i+1)
				}
			case 7:
				if r.IntN(4) == 0 {
					all := l.Clear()
					if got, want := len(all), len(model); got != want {
						t.Fatalf("len(all) = %d, want %d", got, want)
					}
					for i := range all {
						if all[i] != model[i] {
							t.Fatalf("all[i] = %p, want %p", all[i], model[i])
						}
					}
					model = nil
					signaled(all...)
				}
			}
			if got, want := l.Empty(), len(model) == 0; got != want {
				t.Fatalf("l.Empty() = %v, want %v", got, want)
			}
		}
	}
}

func TestWakeOfWaiterThatHasGivenUpDoesNotBlock(t *testing.T) {
	var l waiters.List
	l.Add()
	l.Next().Wake() // nobody receives it
	if !l.Empty() {
		t.Fatal("l.Empty() = false, want true")
	}
}

func TestReusedWaiterTakesNoMemory(t *testing.T) {
	var l waiters.List
	if got := testing.AllocsPerRun(100, func() {
		first, second := l.Add(), l.Add()
		l.Remove(second)
		l.Remove(first)
		l.Reuse(first)
		l.Reuse(second)
	}); got != 0 {
		t.Fatalf("testing.AllocsPerRun = %v, want 0", got)
	}
}
