package setpoint_test

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

// operating returns what a page names and the code does not have: metrics, log messages, which stand in quotes, and alerts. The rule
// on documents looks after the other names.
func operating(page string, t *tree) (problems []string) {
	var code, metrics strings.Builder
	for _, f := range t.code {
		switch {
		case f.test:
		case f.dir == "metrics/prometheus":
			metrics.Write(f.src)
		case !within(f.dir, "examples"):
			code.Write(f.src)
		}
	}
	metric := regexp.MustCompile(`^(setpoint|workqueue|controller_runtime|leader_election)_\w+$`)
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page, -1) {
		name := m[1]
		switch {
		case metric.MatchString(name) && !strings.Contains(metrics.String(), `"`+name+`"`):
			problems = append(problems, "there is no metric "+name)
		case strings.HasPrefix(name, `"`) && !strings.Contains(code.String(), name):
			problems = append(problems, "nothing logs "+name)
		}
	}
	_, alerts, _ := strings.Cut(page, "\n## Alerts\n")
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	for _, m := range regexp.MustCompile("`([A-Z]\\w+)`").FindAllStringSubmatch(alerts, -1) {
		if !strings.Contains(t.files["docs/metrics.md"], "alert: "+m[1]+"\n") {
			problems = append(problems, "there is no alert "+m[1])
		}
	}
	return problems
}

func TestOperatingGuideNamesExistingThings(t *testing.T) {
	tree, err := repository()
	require.NoError(t, err)
	page := tree.files[path.Join("docs", "operating.md")]
	require.NotEmpty(t, page)
	require.Empty(t, operating(page, tree))
	for _, wrong := range []string{"`setpoint_workqueue_parked`", "`\"reconcile was parked\"`", "`SomebodyLeads`"} {
		assert.Len(t, operating(strings.Replace(page, "\n## Alerts\n", "\n## Alerts\n"+wrong, 1), tree), 1, wrong)
	}
}

// term runs an elector until it leads, and returns its term.
func term(t *testing.T, leases leaderelect.LeaseStore) (term uint64) {
	e, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: "shop", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(_ context.Context, l *leaderelect.Leadership) error {
			term = l.Term()
			return nil
		},
	})
	require.NoError(t, err)
	require.NoError(t, e.RunOnce(t.Context()))
	return term
}

// These are the steps of the operating guide for a leader whose terms are too low.
func TestEditedRecordRaisesTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		require.EqualValues(t, 1, term(t, leases))
		leases.Delete("shop")
		leases.Put(leaderelect.Entry{Key: "shop", Term: 57, Value: []byte("{}")})
		require.EqualValues(t, 58, term(t, leases))
	})
}

// These are the steps of the operating guide for changing the number of slots.
func TestNumberOfSlotsFollowsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		run := func(slots int) error {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var acquired atomic.Int64
			s, err := shard.New(shard.Config{
				Lease: leaderelect.Config{Store: leases, Key: "shop", Logger: slog.New(slog.DiscardHandler)}, Slots: slots,
				OnAcquired: func(ctx context.Context, _ int) error {
					if acquired.Add(1) == int64(slots) {
						stop()
					}
					<-ctx.Done()
					return nil
				},
			})
			if err != nil {
				return err
			}
			if err := s.Run(ctx); err != nil {
				return fmt.Errorf("%d slots: %w", slots, err)
			}
			return nil
		}
		require.NoError(t, run(2))
		require.ErrorIs(t, run(4), leaderelect.ErrMismatch)
		leases.Delete("shop")
		require.NoError(t, run(4))
	})
}
