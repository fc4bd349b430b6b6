package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// own is an error type of a user, with a delay.
type own struct {
	error
	d time.Duration
}

func (e own) RetryAfter() time.Duration { return e.d }
func (e own) Unwrap() error             { return e.error }

// branches are errors, and what each says alone.
var branches = []struct {
	name                      string
	err                       error
	failed, notYet, permanent bool
	delay                     time.Duration
}{
	{name: "nothing"},
	{name: "a failure", err: errBusy, failed: true},
	{name: "a failure with a delay", err: retry.After(errBusy, 2*time.Second), failed: true, delay: 2 * time.Second},
	{name: "a failure with a longer delay", err: own{errBusy, 5 * time.Second}, failed: true, delay: 5 * time.Second},
	{name: "a failure with a negative delay", err: own{errBusy, -time.Second}, failed: true},
	{name: "an outer delay of zero", err: own{retry.After(errBusy, 2*time.Second), -1}, failed: true, delay: 2 * time.Second},
	{name: "not yet, until an event", err: retry.NotYet(errBusy, 0), notYet: true},
	{name: "not yet, until a past time", err: retry.NotYet(errBusy, -time.Hour), notYet: true, delay: 1},
	{name: "unfinished", err: retry.NotYet(errBusy, 3*time.Second), notYet: true, delay: 3 * time.Second},
	{name: "not yet, for longer", err: retry.NotYet(errBusy, 9*time.Second), notYet: true, delay: 9 * time.Second},
	{name: "not yet, with any inner error", err: retry.NotYet(errors.Join(errBusy, retry.After(errBusy, 1)), 4*time.Second), notYet: true, delay: 4 * time.Second},
	{name: "the outer delay", err: retry.After(retry.NotYet(errBusy, 3*time.Second), 6*time.Second), notYet: true, delay: 6 * time.Second},
	{name: "permanent", err: retry.Permanent(errBusy), permanent: true, failed: true},
	{name: "permanent inside not yet", err: retry.NotYet(fmt.Errorf("put: %w", retry.Permanent(errBusy)), 0), permanent: true, notYet: true},
	{name: "not yet inside permanent", err: retry.Permanent(retry.NotYet(errBusy, time.Second)), permanent: true, notYet: true, delay: time.Second},
}

// several are errors of which some may be nil.
type several []error

func (several) Error() string     { return "several" }
func (s several) Unwrap() []error { return s }

func TestNotYetDoesNotHideJoinedFailure(t *testing.T) {
	joins := map[string]func(a, b, c error) error{
		"flat": func(a, b, c error) error { return errors.Join(a, b, c) },
		"nested": func(a, b, c error) error {
			if b == nil && c == nil {
				return a
			}
			return errors.Join(a, fmt.Errorf("more: %w", errors.Join(b, c)))
		},
		"text":                                func(a, b, c error) error { return fmt.Errorf("all: %w, %w, %w", a, b, c) },
		"a custom type that keeps nil errors": func(a, b, c error) error { return several{a, b, c} },
	}
	for _, a := range branches {
		for _, b := range branches {
			for _, c := range branches {
				var failed, waits time.Duration
				anyFailed, anyWaits, permanent := false, false, a.permanent || b.permanent || c.permanent
				for _, x := range []struct {
					is, notYet bool
					d          time.Duration
				}{{a.failed, a.notYet, a.delay}, {b.failed, b.notYet, b.delay}, {c.failed, c.notYet, c.delay}} {
					if x.is {
						anyFailed, failed = true, max(failed, x.d)
					}
					if x.notYet {
						anyWaits, waits = true, max(waits, x.d)
					}
				}
				delay := waits
				if anyFailed {
					delay = failed
				}
				for how, join := range joins {
					name := fmt.Sprintf("%s, %s, %s, %s", how, a.name, b.name, c.name)
					err := join(a.err, b.err, c.err)
					assert.Equal(t, permanent, retry.IsPermanent(err), name)
					assert.Equal(t, anyWaits && !anyFailed && !permanent, retry.IsNotYet(err), name)
					d, ok := retry.Delay(err)
					assert.Equal(t, delay, max(d, 0), name)
					assert.Equal(t, delay > 0, ok, name)
				}
			}
		}
	}
	assert.False(t, retry.IsNotYet(nil))
	assert.NoError(t, retry.NotYet(nil, time.Minute))
	assert.ErrorIs(t, retry.NotYet(errBusy, time.Minute), errBusy)
	assert.EqualError(t, retry.NotYet(errBusy, time.Minute), "busy")
}

func TestNotYetRetriesAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(retry.NotYet(errBusy, 10*time.Second), retry.NotYet(errBusy, 0), errBusy)
		require.NoError(t, retry.Do(t.Context(), retry.Config{Backoff: doubling(5)}, s.run))
		assert.Equal(t, seconds(0, 10, 12, 16), s.called, "without a delay of its own that of the backoff counts")
	})
}

func TestEndlessNotYetStopsWithoutFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := retry.Do(t.Context(), retry.Config{Backoff: wait.Backoff{Duration: time.Second, Steps: 3}}, func(context.Context) error {
			calls++
			return retry.NotYet(errBusy, time.Minute)
		})
		assert.Equal(t, 3, calls)
		assert.ErrorIs(t, err, retry.ErrGaveUp)
		assert.EqualError(t, err, "retry: gave up after attempt 3: busy")
		assert.True(t, retry.IsNotYet(err), "a caller that can wait longer goes on")
		d, _ := retry.Delay(err)
		assert.Equal(t, time.Minute, d)
	})
}

func TestOnConflictReturnsNotYet(t *testing.T) {
	calls := 0
	err := retry.OnConflict(t.Context(), wait.Backoff{}, func(context.Context) error {
		calls++
		return retry.NotYet(errBusy, time.Hour)
	})
	assert.True(t, retry.IsNotYet(err))
	assert.Equal(t, 1, calls)
}
