package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// bare hides the optional methods of a backend.
type bare struct{ backend.Backend }

func TestRaisedFenceRefusesEarlierTerms(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	apps, jobs := must(store.Open[int](db, "app", store.Config[int]{})), must(store.Open[int](bare{db}, "job", store.Config[int]{}))
	first := store.WithFence(t.Context(), store.Fence{Lease: "main", Term: 1})
	second := store.WithFence(t.Context(), store.Fence{Lease: "main", Term: 2})
	before := must(apps.LatestVersion(t.Context()))
	for _, raise := range []func(context.Context) error{apps.RaiseFence, jobs.RaiseFence} {
		if err := raise(second); err != nil {
			t.Fatal(err)
		}
		if err := raise(first); !errors.Is(err, store.ErrFenced) {
			t.Errorf("RaiseFence of the first term = %v, want %v", err, store.ErrFenced)
		}
		if err := raise(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if after := must(apps.LatestVersion(t.Context())); after != before {
		t.Errorf("LatestVersion = %d, want %d: nothing was written", after, before)
	}
	if _, err := apps.Create(first, store.Object[int]{Key: "a"}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("Create in the first term = %v, want %v", err, store.ErrFenced)
	}
	if _, err := apps.Create(second, store.Object[int]{Key: "a"}); err != nil {
		t.Error(err)
	}
}

func TestLatestVersionIsThatOfLastWriteOfAnyKind(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	for name, b := range map[string]backend.Backend{"a Versioner": db, "a backend that must list": bare{db}} {
		t.Run(name, func(t *testing.T) {
			apps, jobs := must(store.Open[int](b, "app", store.Config[int]{})), must(store.Open[int](b, "job", store.Config[int]{}))
			job := must(jobs.Create(t.Context(), store.Object[int]{Key: name}))
			if v := must(apps.LatestVersion(t.Context())); v != job.Version {
				t.Errorf("LatestVersion = %d, want %d", v, job.Version)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := apps.LatestVersion(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("LatestVersion = %v, want %v", err, context.Canceled)
			}
		})
	}
}
