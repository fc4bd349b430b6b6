package cache_test

import (
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
)

func TestNewDeltaFIFORejectsBadConfigAndNilKeyFunc(t *testing.T) {
	never := func(_, _ *pod) bool { return false }
	_, err := cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{Equal: never})
	if got, want := fmt.Sprint(err), "cache: new delta FIFO: DeltaFIFOConfig.Equal is set without DeltaFIFOConfig.KnownObjects"; got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	_, err = cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{Equal: never, KnownObjects: newPods()})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := panicOf(func() {
		_, _ = cache.NewDeltaFIFO(nil, cache.DeltaFIFOConfig[string, *pod]{})
	}), "cache: NewDeltaFIFO: the key function is nil"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
}
