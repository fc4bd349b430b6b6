package written_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/setpoint-go/setpoint/internal/written"
)

type listener struct {
	context.Context
	heard []written.Clock
}

func (l *listener) Value(key any) any {
	if key == (written.Key{}) {
		return l
	}
	return l.Context.Value(key)
}
func (l *listener) Wrote(c written.Clock, _ uint64) { l.heard = append(l.heard, c) }

func TestListenerReceivesWritesInDerivedContexts(t *testing.T) {
	written.Tell(t.Context(), "Site", nil, 1)
	l := &listener{Context: t.Context()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(l))
	cancel()
	written.Tell(ctx, "Site", 7, 1)
	if want := ([]written.Clock{{Kind: "Site", DB: 7}}); !reflect.DeepEqual(l.heard, want) {
		t.Errorf("l.heard = %v, want %v", l.heard, want)
	}
}

func TestClockIdentifiesKindAndDatabase(t *testing.T) {
	a, b := new(int), new(int)
	for _, test := range []struct {
		c, d written.Clock
		is   bool
	}{
		{written.Clock{Kind: "Site", DB: a}, written.Clock{Kind: "Site", DB: a}, true},
		{written.Clock{Kind: "Site", DB: a}, written.Clock{Kind: "Site", DB: b}, false},
		{written.Clock{Kind: "Site", DB: a}, written.Clock{Kind: "Server", DB: a}, false},
		{written.Clock{Kind: "Site", DB: a}, written.Clock{Kind: "Site"}, true},
		{written.Clock{Kind: "Site"}, written.Clock{Kind: "Site", DB: a}, true},
		{written.Clock{Kind: "Site", DB: []int{1}}, written.Clock{Kind: "Site", DB: a}, true},
		{written.Clock{Kind: "Site", DB: []int{1}}, written.Clock{Kind: "Site", DB: []int{1}}, true},
	} {
		if got := test.c.Is(test.d); got != test.is {
			t.Errorf("%v %v: test.c.Is(test.d) = %v, want %v", test.c, test.d, got, test.is)
		}
	}
}

type kind string

func (k kind) Kind() string { return string(k) }

type engine struct{ kind }

func (e engine) Clock() written.Clock { return written.Clock{Kind: e.Kind(), DB: 7} }

type made struct{ of any }

func (m made) Source() any { return m.of }

func TestDerivedSourceHasClockOfItsSource(t *testing.T) {
	c, ok := written.ClockOf(made{made{engine{"Site"}}})
	if !ok {
		t.Error("ok = false, want true")
	}
	if want := (written.Clock{Kind: "Site", DB: 7}); !reflect.DeepEqual(c, want) {
		t.Errorf("c = %+v, want %+v", c, want)
	}
	c, ok = written.ClockOf(kind("Site"))
	if !ok {
		t.Error("ok = false, want true")
	}
	if want := (written.Clock{Kind: "Site"}); !reflect.DeepEqual(c, want) {
		t.Errorf("c = %+v, want %+v", c, want)
	}
	_, ok = written.ClockOf(made{nil})
	if ok {
		t.Error("ok = true, want false")
	}
}
