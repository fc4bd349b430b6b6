package outcome_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

var (
	never    time.Time
	noBudget outcome.Budget
)

// resume records an attempt that did not finish in a budget without limits.
func resume(t *testing.T, u *outcome.Unfinished, kind outcome.Kind, delay time.Duration) time.Duration {
	t.Helper()
	wait, ok := u.Continue(kind, delay, noBudget, never)
	require.True(t, ok, "nothing is limited")
	return wait
}

// Guarantee 3.
func TestConflictsInRowAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u outcome.Unfinished
		for i := range outcome.MaxConflicts {
			require.False(t, u.TooManyConflicts())
			wait := outcome.ConflictDelay << i
			require.Equal(t, wait, resume(t, &u, outcome.Conflict, 0))
			for part := range time.Duration(4) { // events bring attempts that conflict too
				time.Sleep(wait / 4)
				if part < 3 {
					require.False(t, u.TooManyConflicts())
					require.Equal(t, wait-(part+1)*(wait/4), resume(t, &u, outcome.Conflict, 0))
				}
			}
		}
		require.True(t, u.TooManyConflicts())
		u.Fail(true)
		require.True(t, u.TooManyConflicts(), "a conflict that counts as a failure is still a conflict")
		u.Fail(false)
		require.False(t, u.TooManyConflicts())
		require.Zero(t, u, "there is nothing to remember")
	})
}

func TestOnlyConflictsStandInRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(u *outcome.Unfinished){
			"not yet":   func(u *outcome.Unfinished) { resume(t, u, outcome.NotYet, 0) },
			"a failure": func(u *outcome.Unfinished) { u.Fail(false) },
		} {
			var u outcome.Unfinished
			resume(t, &u, outcome.Conflict, 0)
			end(&u)
			assert.Zero(t, u, name)
			assert.Equal(t, outcome.ConflictDelay, resume(t, &u, outcome.Conflict, 0), name)
		}
	})
}

func TestDelayOfErrorTakesPrecedence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u outcome.Unfinished
		assert.Equal(t, time.Hour, resume(t, &u, outcome.Conflict, time.Hour))
		assert.Equal(t, time.Minute, resume(t, &u, outcome.NotYet, time.Minute))
		assert.Zero(t, resume(t, &u, outcome.NotYet, 0), "until an event")
		assert.Zero(t, resume(t, &u, outcome.NotYet, -1))
		assert.Equal(t, outcome.ConflictDelay, resume(t, &u, outcome.Conflict, -1))
	})
}

// Guarantee 4.
func TestLastAttemptComesWhenElapsedIsOver(t *testing.T) {
	b := outcome.Budget{Elapsed: time.Minute}
	for name, test := range map[string]struct {
		kind  outcome.Kind
		delay time.Duration
		first time.Duration // how long before the first unfinished attempt the key failed, if positive
		end   time.Duration // after the first unfinished attempt
	}{
		"no delay":                     {outcome.NotYet, 0, 0, time.Minute},
		"a delay that divides it":      {outcome.NotYet, 20 * time.Second, 0, time.Minute},
		"a delay that does not":        {outcome.NotYet, 25 * time.Second, 0, time.Minute},
		"too long a delay":             {outcome.NotYet, time.Hour, 0, time.Minute},
		"a conflict with a long delay": {outcome.Conflict, time.Hour, 0, time.Minute},
		"after a failure":              {outcome.NotYet, time.Hour, 20 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var u outcome.Unfinished
				start, first := time.Now(), never
				if test.first > 0 {
					first = start.Add(-test.first)
				}
				for {
					wait, ok := u.Continue(test.kind, test.delay, b, first)
					if !ok {
						break
					}
					require.Positive(t, wait)
					time.Sleep(wait)
				}
				assert.Equal(t, test.end, time.Since(start))
				assert.True(t, b.Spent(1, never, u) || test.first > 0)
			})
		})
	}
}

func TestBudgetLimitsAttemptsAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none outcome.Unfinished
		start := time.Now()
		attempts, elapsed := outcome.Budget{Attempts: 3}, outcome.Budget{Elapsed: time.Minute}
		var unfinished outcome.Unfinished
		_, ok := unfinished.Continue(outcome.NotYet, 0, elapsed, never)
		require.True(t, ok)
		unfinished.Fail(false)

		assert.False(t, attempts.Spent(2, start, none))
		assert.True(t, attempts.Spent(3, never, none))
		time.Sleep(time.Minute - 1)
		assert.False(t, elapsed.Spent(1, start, none))
		assert.False(t, elapsed.Spent(1, never, unfinished))
		time.Sleep(time.Nanosecond)
		for name, began := range map[string]bool{
			"after failures":                       elapsed.Spent(1, start, none),
			"after unfinished attempts":            elapsed.Spent(1, never, unfinished),
			"the failures came later":              elapsed.Spent(1, time.Now(), unfinished),
			"the unfinished attempts came later":   elapsed.Spent(1, start, laterUnfinished(elapsed, start)),
			"with a limit of attempts, too":        outcome.Budget{Attempts: 3, Elapsed: time.Minute}.Spent(1, start, none),
			"the attempts are spent, not the time": outcome.Budget{Attempts: 3, Elapsed: time.Hour}.Spent(3, start, none),
		} {
			assert.True(t, began, name)
		}
		assert.False(t, elapsed.Spent(1, never, none), "a first failure is not the last one")
		assert.False(t, attempts.Spent(2, start, unfinished))
		assert.False(t, noBudget.Spent(1000, start, unfinished), "zero is no limit")
	})
}

// laterUnfinished is the record of a key that did not finish just now, long after its first failure.
func laterUnfinished(b outcome.Budget, first time.Time) (u outcome.Unfinished) {
	u.Continue(outcome.NotYet, 0, b, first)
	return u
}
