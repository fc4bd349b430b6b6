package leaderelect_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// lines counts the lines of a log that contain a text.
func lines(log *bytes.Buffer, text string) (n int) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func TestOutageDoesNotFloodLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := memlease.New()
		elector := func(identity string) *leaderelect.Elector {
			e, err := leaderelect.New(leaderelect.Config{
				Store: struct{ leaderelect.LeaseStore }{store}, Key: "a", Identity: identity, LeaseDuration: time.Second,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
					<-ctx.Done()
					return nil
				},
			})
			require.NoError(t, err)
			return e
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- elector("one").Run(ctx) }()
		time.Sleep(10 * time.Second)
		store.Inject(memlease.Faults{Before: func(context.Context, memlease.Call) error { return errors.New("down") }})
		time.Sleep(time.Minute)
		synctest.Wait() // no goroutine writes to the log now
		assert.Equal(t, 1, lines(&log, "renewing the lease failed"))
		assert.Equal(t, 1, lines(&log, "leadership ended"))
		reads := lines(&log, "reading the record failed")
		assert.GreaterOrEqual(t, reads, 6)
		assert.LessOrEqual(t, reads, 7, "of more than 400 that have failed")
		assert.Equal(t, reads-1, lines(&log, "skipped="), "all but the first say how many were skipped")
		stop()
		assert.NoError(t, <-ended)
	})
}

// brokenWatch is a store whose watches fail.
type brokenWatch struct{ leaderelect.LeaseStore }

func (brokenWatch) Watch(context.Context, string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) { yield(leaderelect.Entry{}, errors.New("down")) }
}

func TestFailingWatchDoesNotFloodLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e, err := leaderelect.New(leaderelect.Config{
			Store: brokenWatch{memlease.New()}, Key: "a", LeaseDuration: time.Second,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
				<-ctx.Done()
				return nil
			},
		})
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.NoError(t, e.Run(ctx))
		assert.Equal(t, 6, lines(&log, "watching the record failed"), "of more than 300 that have failed")
		assert.Equal(t, 5, lines(&log, "skipped="), "all but the first say how many were skipped")
	})
}
