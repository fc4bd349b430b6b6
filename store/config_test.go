package store_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

func TestIncompleteCodecErrorNamesTheField(t *testing.T) {
	encode := func(s string) ([]byte, error) { return json.Marshal(s) }
	decode := func(b []byte) (s string, err error) { return s, json.Unmarshal(b, &s) }
	db := store.NewMemory(store.MemoryConfig{})

	_, err := store.Open(db, "texts", store.Config[string]{Encode: encode})
	require.ErrorContains(t, err, "Config.Encode is set without Config.Decode")
	_, err = store.Open(db, "texts", store.Config[string]{Decode: decode})
	require.ErrorContains(t, err, "Config.Decode is set without Config.Encode")
	_, err = store.Open(db, "texts", store.Config[string]{Encode: encode, Decode: decode})
	require.NoError(t, err)
}

func TestOpenWithoutBackendIsAnError(t *testing.T) {
	for _, db := range []backend.Backend{nil, (*store.Memory)(nil)} {
		_, err := store.Open(db, "texts", store.Config[string]{})
		require.EqualError(t, err, "store: open texts: the backend is nil")
	}
}
