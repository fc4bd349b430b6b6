package informer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

func TestBackoffWithoutDelayIsRejected(t *testing.T) {
	const want = ", must be positive if another field of Config.Backoff is set"
	for duration, backoff := range map[string]wait.Backoff{
		"0s":  {Factor: 2, Cap: time.Minute},
		"-1s": {Duration: -time.Second},
	} {
		_, err := informer.New(newSource(), nameOf, informer.Config{Backoff: backoff})
		require.EqualError(t, err, "informer: new informer: Config.Backoff.Duration is "+duration+want)
	}
	_, err := informer.New(newSource(), nameOf, informer.Config{ResyncPeriod: -1, Backoff: wait.Backoff{Duration: 1}})
	require.NoError(t, err)
}

func TestZeroInformerDoesNotCrash(t *testing.T) {
	var in informer.Informer[string, site]
	require.PanicsWithValue(t, "informer: Run called on an Informer that New has not made", func() { _ = in.Run(t.Context()) })
}
