package memlease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

func TestSessionsConform(t *testing.T) {
	ctx := t.Context()
	s := memlease.New()
	if err := s.Gone(ctx, "a"); err != nil {
		t.Fatalf(`no process holds it: s.Gone(ctx, "a"): %v`, err)
	}

	hold := func(ctx context.Context, session string) (held chan struct{}, end chan error) {
		held, end = make(chan struct{}), make(chan error, 1)
		go func() { end <- s.Hold(ctx, session, func() { close(held) }) }() // the test waits for its end
		<-held
		return held, end
	}
	_, endA := hold(ctx, "a")
	short, cut := context.WithCancel(context.Background())
	_, endB := hold(short, "b")
	if got := fmt.Sprint(s.Hold(ctx, "a", func() { t.Error("it is held twice") })); !strings.Contains(got, "another call holds it") {
		t.Fatalf("s.Hold = %q, want an error that contains %q", got, "another call holds it")
	}

	over, stop := context.WithCancel(ctx)
	stop()
	if err := s.Gone(over, "a"); !errors.Is(err, context.Canceled) {
		t.Fatalf(`s.Gone(over, "a") = %v, want %v`, err, context.Canceled)
	}

	gone := make(chan error, 1)
	go func() { gone <- s.Gone(ctx, "b") }() // the test waits for its end
	cut()
	if err := <-endB; !errors.Is(err, context.Canceled) {
		t.Fatalf("<-endB = %v, want %v", err, context.Canceled)
	}
	if err := <-gone; err != nil {
		t.Fatalf("<-gone: %v", err)
	}

	go func() { gone <- s.Gone(ctx, "a") }() // the same
	select {
	case <-gone:
		t.Fatal("another call holds it")
	default:
	}
	s.DropSessions()
	if got := fmt.Sprint(<-endA); !strings.Contains(got, "it was dropped") {
		t.Fatalf("<-endA = %q, want an error that contains %q", got, "it was dropped")
	}
	if err := <-gone; err != nil {
		t.Fatalf("<-gone: %v", err)
	}
}

func TestDroppedSessionHeldByAnotherStaysHeld(t *testing.T) {
	for range 20 { // which end the first one sees, of two, is random
		s := memlease.New()
		first, leave := context.WithCancel(t.Context())
		second, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		if err := s.Hold(first, "a", func() {
			s.DropSessions()
			held := make(chan struct{})
			go func() { end <- s.Hold(second, "a", func() { close(held) }) }() // the test waits for its end
			<-held
			leave()
		}); err == nil {
			t.Fatal("s.Hold = nil, want an error")
		}
		if got := fmt.Sprint(s.Hold(first, "a", func() { t.Error("it is held twice") })); !strings.Contains(got, "another call holds it") {
			t.Fatalf("s.Hold = %q, want an error that contains %q", got, "another call holds it")
		}
		stop()
		if err := <-end; !errors.Is(err, context.Canceled) {
			t.Fatalf("<-end = %v, want %v", err, context.Canceled)
		}
	}
}
