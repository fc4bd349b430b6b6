package dbtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store"
)

func TestTheMemoryHoldsAppsAndLeases(t *testing.T) {
	db := memory(t)
	r, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	got, err := db.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	require.Equal(t, r, got)
	_, err = dbtest.Apps(t, db).Create(t.Context(), store.Object[dbtest.App]{Key: "a"})
	require.NoError(t, err)
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		return leasetest.Backend{Store: dbtest.Leases(t, memory(t))}
	})
}

func memory(t *testing.T) *store.Memory {
	db, err := store.NewMemory(store.MemoryConfig{})
	require.NoError(t, err)
	return db
}

func TestTheMemoryTakesHostileStrings(t *testing.T) { dbtest.HostileStrings(t, memory(t)) }
