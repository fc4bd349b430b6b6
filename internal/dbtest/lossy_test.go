package dbtest

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// fixedWatch is a backend whose watch yields some changes.
type fixedWatch struct {
	backend.Backend
	changes []backend.Change
}

func (b fixedWatch) Watch(context.Context, string, backend.Query, informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		for _, c := range b.changes {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func TestAuditFindsWhatWatchLeavesOutOrInvents(t *testing.T) {
	left := map[informer.Version]string{1: "a", 3: "b", 20: "c"}
	lost := func(v informer.Version) bool { return v > 3 && v < 20 }
	change := func(v informer.Version, key string) backend.Change {
		return backend.Change{Version: v, Record: backend.Record{Key: key, Version: v}}
	}
	bookmark := func(v informer.Version) backend.Change { return backend.Change{Version: v} }
	for name, c := range map[string]struct {
		after   informer.Version
		changes []backend.Change
		want    []string
	}{
		"everything":                {0, []backend.Change{change(1, "a"), change(3, "b"), change(20, "c"), bookmark(21)}, nil},
		"the rest":                  {1, []backend.Change{change(3, "b")}, nil},
		"a lost change":             {1, []backend.Change{change(3, "b"), change(4, "x")}, nil},
		"nothing":                   {0, nil, nil},
		"nothing but a bookmark":    {1, []backend.Change{bookmark(3)}, []string{"the watch from version 1 to 3 has, at version 3, left out b"}},
		"a change that is left out": {1, []backend.Change{change(20, "c")}, []string{"the watch from version 1 to 20 has, at version 3, left out b"}},
		"a change of another key": {3, []backend.Change{change(20, "x")}, []string{
			"the watch from version 3 to 20 has, at version 20, left out c",
			"the watch from version 3 to 20 has, at version 20, reported x, which is not in the history",
		}},
		"an invented change": {3, []backend.Change{change(20, "c"), change(21, "x")}, []string{
			"the watch from version 3 to 21 has, at version 21, reported x, which is not in the history",
		}},
		"a watch at a lost version": {9, []backend.Change{bookmark(21)}, []string{"the watch from version 9 to 21 has, at version 20, left out c"}},
	} {
		a := &audit{Backend: fixedWatch{changes: c.changes}}
		for _, err := range a.Watch(t.Context(), appKind, backend.Query{}, c.after) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got := a.compare(left, lost); !slices.Equal(got, c.want) {
			t.Errorf("%s: the audit finds %q, want %q", name, got, c.want)
		}
	}
}
