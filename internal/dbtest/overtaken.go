package dbtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/store/backend"
)

// OvertakenWriteRestarts checks a write of db that is overtaken by writes of other, another handle of the same database, while it decides. If its
// record changes, it decides again. If its term ends, it is refused. It is for databases whose writers do not wait for a decision.
func OvertakenWriteRestarts(t testing.TB, db, other backend.Backend) {
	t.Helper()
	ctx := t.Context()
	put := func(key, value string, deleted bool, fences ...backend.Fence) {
		must[backend.Record](t)(other.Transact(ctx, "app", key, fences, func(backend.Record) (*backend.Record, error) {
			return &backend.Record{Meta: []byte("{}"), Value: []byte(value), Deleted: deleted}, nil
		}))
	}
	overtaken := func(key string, meanwhile func(), fences ...backend.Fence) (saw []backend.Record, r backend.Record, err error) {
		r, err = db.Transact(ctx, "app", key, fences, func(have backend.Record) (*backend.Record, error) {
			if saw = append(saw, have); len(saw) == 1 {
				meanwhile()
			}
			return &backend.Record{Meta: []byte("{}"), Value: append(slices.Clone(have.Value), " mine"...)}, nil
		})
		return saw, r, err
	}
	for key, c := range map[string]struct {
		before, meanwhile []string // the values that are written; "deleted" is a tombstone
	}{
		"written":   {nil, []string{"theirs"}},
		"deleted":   {nil, []string{"theirs", "deleted"}},
		"again":     {[]string{"old"}, []string{"deleted", "theirs"}},
		"recreated": {[]string{"old", "deleted"}, []string{"theirs"}},
		"replaced":  {[]string{"old", "deleted"}, []string{"theirs", "deleted"}},
	} {
		write := func(values []string) {
			for _, value := range values {
				put(key, value, value == "deleted")
			}
		}
		write(c.before)
		saw, r, err := overtaken(key, func() { write(c.meanwhile) })
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		last := c.meanwhile[len(c.meanwhile)-1]
		if len(saw) != 2 || string(saw[1].Value) != last || saw[1].Deleted != (last == "deleted") {
			t.Errorf("%s: decided about %+v, want the second time about %q", key, saw, last)
		}
		if got := must[backend.Record](t)(other.Get(ctx, "app", key)); got.Version != r.Version || string(got.Value) != last+" mine" {
			t.Errorf("%s: %+v was written, want %q in version %d", key, got, last+" mine", r.Version)
		}
	}
	for lease, recorded := range map[string]uint64{"new": 0, "recorded": 3} {
		if recorded > 0 {
			put("first", "1", false, backend.Fence{Lease: lease, Term: recorded})
		}
		saw, _, err := overtaken("fenced", func() {
			put("next", "1", false, backend.Fence{Lease: lease, Term: 4})
		}, backend.Fence{Lease: "held", Term: 1}, backend.Fence{Lease: lease, Term: 3})
		if !errors.Is(err, backend.ErrFenced) || len(saw) != 1 {
			t.Errorf("a %s term: decided about %+v: %v, want one decision and ErrFenced", lease, saw, err)
		}
		if got := must[backend.Record](t)(other.Get(ctx, "app", "fenced")); got.Version != 0 {
			t.Errorf("a %s term: %+v was written", lease, got)
		}
	}
}
