package redislease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/redislease"
)

func TestNewPanicsWithoutClient(t *testing.T) {
	require.PanicsWithValue(t, "redislease: New: the client is nil", func() { redislease.New(nil, redislease.Config{}) })
}
