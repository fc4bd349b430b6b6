package storelease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/storelease"
)

func TestNewPanicsWithoutStore(t *testing.T) {
	require.PanicsWithValue(t, "storelease: New: the store of records is nil", func() {
		storelease.New(nil, storelease.Config{})
	})
}
