package main

import (
	"context"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

func Example() {
	main()
	// Output:
	// created: 3 servers, 1 DNS entries
	// scaled down: 1 servers, 1 DNS entries
	// deleted: 0 servers, 0 DNS entries
}

func TestDemoLeavesOnlyEventsBehind(t *testing.T) {
	silence := os.Stdout
	os.Stdout, _ = os.Open(os.DevNull)
	defer func() { os.Stdout = silence }()
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, demo(context.WithoutCancel(t.Context()), db))
		for _, left := range []func() int{
			func() int { return count[Site](t, db, "Site") },
			func() int { return count[Server](t, db, "Server") },
		} {
			assert.Zero(t, left())
		}
		assert.Positive(t, count[events.Event](t, db, "Event"), "events were kept")
	})
}

func count[T any](t *testing.T, db *store.Memory, kind string) int {
	objects, err := store.Open(db, kind, store.Config[T]{})
	require.NoError(t, err)
	list, err := objects.List(t.Context())
	require.NoError(t, err)
	return len(list.Items)
}
