package leaderelect_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	marks "github.com/setpoint-go/setpoint/retry"
)

func TestPermanentStoreErrorIsReturnedButOutageIsNot(t *testing.T) {
	for what, c := range map[string]struct {
		broken func(c call, at time.Duration) bool
		check  string // "" is nil
	}{
		"a missing table":            {func(call, time.Duration) bool { return true }, "the store has never answered, for "},
		"a read-only directory":      {func(c call, _ time.Duration) bool { return c.op != "get" }, "the store answers reads but no writes, for "},
		"it becomes read-only later": {func(c call, at time.Duration) bool { return c.op != "get" && at > 30*time.Second }, "reads but no writes"},
		"an outage":                  {func(_ call, at time.Duration) bool { return at > 30*time.Second }, ""},
	} {
		for how, change := range map[string]func(*leaderelect.Config){"polling": nil, "watching": watched} {
			subWorld(t, what+", "+how, func(t *testing.T, w *world) {
				if how == "watching" && what == "a missing table" {
					w.cut("a", time.Hour) // the watch as well
				}
				w.plan = func(call call) (fault, time.Duration) {
					if c.broken(call, w.at(call.now)) {
						return lostRequest, 0
					}
					return none, 0
				}
				a := w.join(t, "a", change)
				require.NoError(t, a.Stats().LastError)
				a.start()
				after(lease)
				require.NoError(t, a.Check(), "it may still arrive")
				after(2 * time.Minute)
				require.Error(t, a.Stats().LastError)
				if c.check == "" {
					require.NoError(t, a.Check())
				} else {
					require.ErrorContains(t, a.Check(), c.check)
					require.ErrorIs(t, a.Check(), a.Stats().LastError)
				}
				w.heal()
				after(time.Minute)
				require.True(t, a.IsLeader())
				require.NoError(t, a.Check())
				require.NoError(t, a.Stats().LastError)
				require.NoError(t, a.stop())
			})
		}
	}
}

func TestFollowerIgnoresEarlierWriteErrors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, "a", nil), w.join(t, "b", nil)
		w.plan = from("b", "create", 1, lostRequest)
		b.start()
		after(time.Second)
		require.ErrorIs(t, b.Stats().LastError, errNetwork)
		a.start()
		after(time.Minute)
		require.True(t, a.IsLeader())
		assert.NoError(t, b.Stats().LastError)
		assert.NoError(t, b.Check())
	})
}

// The elector also claims a free lease while it cannot read.
func TestOutageDuringClaimsIsNotAReadOnlyStore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		require.NoError(t, a.Resign(t.Context(), time.Minute))
		w.plan = func(c call) (fault, time.Duration) {
			if w.at(c.now) > 30*time.Second {
				return lostRequest, 0
			}
			return none, 0
		}
		a.start()
		after(3 * time.Minute)
		require.ErrorIs(t, a.Stats().LastError, errNetwork)
		require.NoError(t, a.Check())
	})
}

func TestCanceledCallIsNoStoreFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "get", 1, stall, 0)
		a := w.leader(t, nil)
		a.cancel(context.Canceled)
		<-a.done
		assert.NoError(t, a.Stats().LastError)
	})
}

func TestConflictingClaimNeedsNoResolution(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "create", 1, falseConflict, 0)
		a := w.leader(t, nil)
		require.Zero(t, w.led())
		require.NoError(t, a.Stats().LastError, "the store has answered")
		calls := w.calls
		require.NoError(t, a.stop())
		require.Equal(t, calls, w.calls, "there is nothing to release")
	})
}

var errNoTable = errors.New("there is no table: call EnsureTable")

func TestStoreThatCannotWorkEndsRun(t *testing.T) {
	for what, c := range map[string]struct {
		broken func(op string, at time.Duration) bool
		lasts  bool
		ends   time.Duration // 0 is not before its context
	}{
		"the table is missing":                      {func(string, time.Duration) bool { return true }, true, latency},
		"the role may only read":                    {func(op string, _ time.Duration) bool { return op != "get" }, true, latency},
		"the table was dropped later":               {func(_ string, at time.Duration) bool { return at > time.Minute }, true, 0},
		"the role has lost its privilege to write":  {func(op string, at time.Duration) bool { return op != "get" && at > time.Minute }, true, 0},
		"an outage at the start":                    {func(_ string, at time.Duration) bool { return at < time.Minute }, false, 0},
		"an outage of the start that ends too late": {func(string, time.Duration) bool { return true }, false, 0},
	} {
		for how, run := range map[string]func(*leaderelect.Elector, context.Context) error{
			"Run": (*leaderelect.Elector).Run, "RunOnce": (*leaderelect.Elector).RunOnce,
		} {
			t.Run(what+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, begin := memlease.New(), time.Now()
					s.Inject(memlease.Faults{Before: func(_ context.Context, call memlease.Call) error {
						switch {
						case !c.broken(call.Op, time.Since(begin)):
							return nil
						case c.lasts:
							return marks.Permanent(errNoTable)
						default:
							return errNoTable
						}
					}})
					e, err := leaderelect.New(leaderelect.Config{
						Store: s, Key: key, Logger: slog.New(slog.DiscardHandler), Rand: func() float64 { return 0.5 },
						OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil },
					})
					require.NoError(t, err)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					err = run(e, ctx)
					took := time.Since(begin)
					if c.ends > 0 {
						require.LessOrEqual(t, took, c.ends)
						require.ErrorIs(t, err, errNoTable)
						require.True(t, strings.HasPrefix(err.Error(), `leaderelect: run "lease": memlease: `), err)
						require.True(t, marks.IsPermanent(err))
						require.NoError(t, ctx.Err())
						return
					}
					if how == "Run" {
						require.NoError(t, err)
						require.GreaterOrEqual(t, took, 5*time.Minute)
					} else if err != nil {
						require.ErrorIs(t, err, leaderelect.ErrLeaseExpired)
					}
				})
			})
		}
	}
}
