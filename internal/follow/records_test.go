package follow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
)

func TestRecordsYieldsChangesMatchingQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []backend.Change
		for i, key := range []string{"a/1", "b/1", "a/2", "a/3", "b/2"} {
			v := informer.Version(i + 1)
			all = append(all, backend.Change{Record: backend.Record{Key: key, Version: v}, Version: v})
		}
		const batch, version = 2, 7
		var asked []informer.Version
		changes := func(_ context.Context, after informer.Version) ([]backend.Change, informer.Version, error) {
			asked = append(asked, after)
			switch left := all[min(int(after), len(all)):]; {
			case after > version:
				return nil, 0, errors.New("beyond the end")
			case len(left) >= batch:
				return slices.Clone(left[:batch]), left[batch-1].Version, nil
			default:
				return slices.Clone(left), version, nil
			}
		}
		begin := time.Now()
		loop := follow.Records(time.Hour, new(follow.Signal), backend.Query{Prefix: "a/"}, batch, changes)
		var told []backend.Change
		if err := loop.Run(t.Context(), 0, func(c backend.Change) bool {
			told = append(told, c)
			return c.Version < version
		}); err != nil {
			t.Fatalf("loop.Run: %v", err)
		}
		if diff := cmp.Diff([]backend.Change{
			all[0], {Version: 2}, all[2], all[3], {Version: 7},
		}, told); diff != "" {
			t.Errorf("told mismatch (-want +got):\n%s", diff)
		}
		if want := ([]informer.Version{0, 2, 4}); !slices.Equal(asked, want) {
			t.Errorf("a full batch is read on at once: asked = %v, want %v", asked, want)
		}
		if got := time.Now(); !got.Equal(begin) {
			t.Errorf("time.Now() = %v, want %v", got, begin)
		}
		told = nil
		if err := loop.Run(t.Context(), 2, func(c backend.Change) bool {
			told = append(told, c)
			return false
		}); err != nil {
			t.Fatalf("loop.Run: %v", err)
		}
		if len(told) != 1 {
			t.Errorf("it ends where the consumer stops: len(told) = %d, want 1: %v", len(told), told)
		}
		if got := fmt.Sprint(loop.Run(t.Context(), version+1, func(backend.Change) bool { return true })); got != "beyond the end" {
			t.Fatalf("loop.Run = %q, want %q", got, "beyond the end")
		}
	})
}
