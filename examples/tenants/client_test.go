package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// bucket is a resource that a leader of a term wants.
func bucket(region string) store.Object[Resource] {
	return store.Object[Resource]{Key: "acme/the shop/bucket", UID: "u1", Value: Resource{Kind: "bucket", Region: region}}
}

func TestClientReportsOutcomeOfCalls(t *testing.T) {
	sky, err := cloud.New(cloud.Config{PerSecond: 100, Latency: -1})
	require.NoError(t, err)
	server := httptest.NewServer(sky)
	defer server.Close()
	c, err := newClient(server.URL)
	require.NoError(t, err)
	first, depose := leaderelect.Appoint(t.Context(), "tenants", 1)
	second, resign := leaderelect.Appoint(t.Context(), "tenants", 2)
	defer resign(leaderelect.ErrTermEnded)

	revision, err := c.Put(first, bucket("eu"))
	require.NoError(t, err)
	require.EqualValues(t, 1, revision)
	listed, err := c.version(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, listed)
	require.Equal(t, sky.All().Items, c.listed)
	require.Equal(t, "acme/the shop/bucket", c.listed[0].Key)

	_, err = c.Put(first, bucket("moon"))
	require.True(t, retry.IsPermanent(err), err)
	require.Equal(t, `the cloud says: there is no region "moon"`, reason(err))

	require.NoError(t, c.Delete(second, bucket("eu")))
	_, err = c.Put(first, bucket("eu"))
	require.ErrorIs(t, err, fence.ErrStale)
	depose(leaderelect.ErrLeaseTaken)
	for range 5 { // it is not sent, so neither the limit nor the breaker counts it
		_, err = c.Put(first, bucket("eu"))
		require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
	}
	_, err = c.Put(t.Context(), bucket("eu"))
	require.ErrorIs(t, err, fencehttp.ErrNoLeadership, "only a leader changes something")
	require.Empty(t, sky.All().Items)
}

// A gate returns immediately, so no worker waits. Its error says when to come back, so nothing counts as a failure.
func TestLimitAndOutageDoNotBlockCallers(t *testing.T) {
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer busy.Close()
	c, err := newClient(busy.URL)
	require.NoError(t, err)
	for range 2 { // the second one is not sent
		_, err = c.version(t.Context())
		require.True(t, retry.IsNotYet(err), err)
		d, _ := retry.Delay(err)
		require.InDelta(t, 7, d.Seconds(), 1)
	}

	calls := 0
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		http.Error(w, "down", http.StatusInternalServerError)
	}))
	defer down.Close()
	c, err = newClient(down.URL)
	require.NoError(t, err)
	for range 3 {
		_, err = c.version(t.Context())
		require.EqualError(t, err, "the cloud says: down")
	}
	for range 10 {
		_, err = c.version(t.Context())
		require.True(t, retry.IsNotYet(err), err)
		d, _ := retry.Delay(err)
		require.Less(t, d, 3*time.Second)
	}
	require.Equal(t, 3, calls, "an open breaker lets nothing through")
}
