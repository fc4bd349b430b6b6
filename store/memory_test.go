package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/storetest"
)

func TestMemoryIsAStore(t *testing.T) {
	for name, history := range map[string]int{"with the default history": 0, "with a short history": 40} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Database {
				db := store.NewMemory(store.MemoryConfig{History: history})
				return storetest.Database{
					Open: func(kind string) store.Store[storetest.Thing] {
						s, err := store.Open[storetest.Thing](db, kind)
						require.NoError(t, err)
						return s
					},
					History: max(history, 4096*btoi(history == 0)),
				}
			})
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
