package reconcile_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/setpoint-go/setpoint/internal/reconcile"
)

type listener struct {
	context.Context
	heard []reconcile.Clock
	done  []reconcile.Write
}

func (l *listener) Value(key any) any {
	if key == (reconcile.WritesKey{}) {
		return l
	}
	return l.Context.Value(key)
}
func (l *listener) Begin(c reconcile.Clock)                  { l.heard = append(l.heard, c) }
func (l *listener) End(_ reconcile.Clock, w reconcile.Write) { l.done = append(l.done, w) }

func TestListenerReceivesWritesInDerivedContexts(t *testing.T) {
	reconcile.ReportWrite(t.Context(), "Site", nil, 1)
	l := &listener{Context: t.Context()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(l))
	cancel()
	c := reconcile.Clock{Kind: "Site", DB: 7}
	reconcile.ReportWrite(ctx, "Site", 7, 1)
	if want := ([]reconcile.Write{{Clock: c, Before: reconcile.Unknown, Version: 1}}); !reflect.DeepEqual(l.done, want) {
		t.Errorf("l.done = %v, want %v", l.done, want)
	}
	if want := ([]reconcile.Clock{c}); !reflect.DeepEqual(l.heard, want) {
		t.Errorf("l.heard = %v, want %v", l.heard, want)
	}
}

func TestClockIdentifiesKindAndDatabase(t *testing.T) {
	a, b := new(int), new(int)
	for _, test := range []struct {
		c, d reconcile.Clock
		is   bool
	}{
		{reconcile.Clock{Kind: "Site", DB: a}, reconcile.Clock{Kind: "Site", DB: a}, true},
		{reconcile.Clock{Kind: "Site", DB: a}, reconcile.Clock{Kind: "Site", DB: b}, false},
		{reconcile.Clock{Kind: "Site", DB: a}, reconcile.Clock{Kind: "Server", DB: a}, false},
		{reconcile.Clock{Kind: "Site", DB: a}, reconcile.Clock{Kind: "Site"}, true},
		{reconcile.Clock{Kind: "Site"}, reconcile.Clock{Kind: "Site", DB: a}, true},
		{reconcile.Clock{Kind: "Site", DB: []int{1}}, reconcile.Clock{Kind: "Site", DB: a}, true},
		{reconcile.Clock{Kind: "Site", DB: []int{1}}, reconcile.Clock{Kind: "Site", DB: []int{1}}, true},
	} {
		if got := test.c.Is(test.d); got != test.is {
			t.Errorf("%v %v: test.c.Is(test.d) = %v, want %v", test.c, test.d, got, test.is)
		}
	}
}

type kind string

func (k kind) Kind() string { return string(k) }

type engine struct{ kind }

func (e engine) Clock() reconcile.Clock { return reconcile.Clock{Kind: e.Kind(), DB: 7} }

type made struct{ of any }

func (m made) Source() any { return m.of }

func TestDerivedSourceHasClockOfItsSource(t *testing.T) {
	c, ok := reconcile.ClockOf(made{made{engine{"Site"}}})
	if !ok {
		t.Error("ok = false, want true")
	}
	if want := (reconcile.Clock{Kind: "Site", DB: 7}); !reflect.DeepEqual(c, want) {
		t.Errorf("c = %+v, want %+v", c, want)
	}
	c, ok = reconcile.ClockOf(kind("Site"))
	if !ok {
		t.Error("ok = false, want true")
	}
	if want := (reconcile.Clock{Kind: "Site"}); !reflect.DeepEqual(c, want) {
		t.Errorf("c = %+v, want %+v", c, want)
	}
	_, ok = reconcile.ClockOf(made{nil})
	if ok {
		t.Error("ok = true, want false")
	}
}
