package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// keeper is a system that deletes from/a once it is 2, and removes its finalizer in a reconcile of its own, so long after that.
func keeper(takes time.Duration) simtest.System {
	return systemOf(func(env *simtest.Env) []simtest.Part {
		froms, from := simtest.Mirror[number](env, "from")
		return []simtest.Part{loopOf("keep", from, just(func(ctx context.Context, key string) error {
			o, ok := from.Get(key)
			switch {
			case !ok:
				return nil
			case !o.Deleting.IsZero():
				if left := takes - time.Since(o.Deleting); left > 0 {
					return retry.NotYet(errors.New("it takes time"), left)
				}
				o.Finalizers = nil
				_, err := froms.Update(ctx, o)
				return ignore(err, store.ErrNotFound)
			case o.Value.N == 2:
				_, err := froms.Delete(ctx, key)
				return ignore(err, store.ErrNotFound)
			}
			return nil
		}))}
	})
}

func TestStepsWaitForWhatTheyNeed(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		a := store.Object[number]{Key: "a", Value: number{1}, Finalizers: []string{"keep"}}
		text := simtest.Timeline(t, func() simtest.World {
			return simtest.World{Mode: mode, Systems: []simtest.System{keeper(0)}, Steps: []simtest.Step{
				simtest.Create("from", a),
				simtest.Update("from", "a", func(n *number) { n.N = 2 }).Named("enough"),
				simtest.Create("from", a),
				simtest.Delete[number]("from", "a"),
			}}
		}, "")
		inOrder(t, text, "STEP create from/a", "user create from/a", "STEP enough", "user update from/a", "s.1 delete from/a", "s.1 delete from/a",
			"STEP create from/a", "user create from/a", "STEP delete from/a", "user delete from/a", "s.1 delete from/a")
	})
}

func TestStepThatNeverGetsWhatItNeedsFailsTheRun(t *testing.T) {
	for says, step := range map[string]simtest.Step{
		`step "create from/a": simtest: not yet: `: simtest.Create("from", store.Object[number]{Key: "a"}),
		`step "update from/b": simtest: not yet: `: simtest.Update("from", "b", func(*number) {}),
		`step "delete from/b": simtest: not yet: `: simtest.Delete[number]("from", "b"),
	} {
		f := simtest.Replay(t, func() simtest.World {
			return simtest.World{Steps: []simtest.Step{simtest.Create("from", store.Object[number]{Key: "a"}), step}}
		}, nil)
		require.NotNil(t, f, says)
		require.EqualValues(t, "world", f.Rule)
		require.Contains(t, f.Problem, says)
	}
}

func TestListIsSorted(t *testing.T) {
	var kinds [][]string
	f := simtest.Replay(t, func() simtest.World {
		return simtest.World{
			Steps: []simtest.Step{create("from", "c a b", 1), create("to", "d", 1)},
			Goal: func(v *simtest.View) error {
				kinds = nil
				for _, kind := range []string{"from", "to", "none"} {
					var keys []string
					for _, o := range simtest.List[number](v, kind) {
						keys = append(keys, fmt.Sprint(o.Key, o.Value.N))
					}
					kinds = append(kinds, keys)
				}
				return nil
			},
		}
	}, nil)
	require.Nil(t, f)
	require.Equal(t, [][]string{{"a1", "b1", "c1"}, {"d1"}, nil}, kinds)
}
