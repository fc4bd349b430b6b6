//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
)

// With -slots, each replica works on its share of the keys, and the others take over the share of one that is killed.
func TestReplicasShareTheTenantsInSlots(t *testing.T) {
	t.Setenv(asProgram, "1") // of the replicas
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	sky, err := cloud.New(cloud.Config{PerSecond: 100, Latency: time.Millisecond})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l, sky) }() // ends with ctx
	address := "sqlite:" + filepath.Join(t.TempDir(), "tenants.db")
	db, err := openDatabase(ctx, address, true)
	require.NoError(t, err)
	defer db.close()
	rs := &replicas{
		args: []string{"-store", address, "-cloud", "http://" + l.Addr().String(), "-lease", "3s", "-slots", "6", "-rate", "50"},
		tell: func(line string) { t.Log(line) }, all: make(map[string]*replica), over: make(map[string]bool),
	}
	d := &demo{db: db, cloud: sky, replicas: rs, out: t.Output(), start: time.Now()}
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, rs.start(ctx, name))
	}

	const tenants = 10
	for i := range tenants {
		require.NoError(t, d.insert(ctx, fmt.Sprintf("customer-%d", i), "shop", "pro", "eu"))
	}
	inRegion := func(region string) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) {
			n := 0
			for _, r := range sky.All().Items {
				if r.Region == region {
					n++
				}
			}
			return n == tenants*3, nil
		}
	}
	require.NoError(t, d.until(ctx, "all are in eu", inRegion("eu")))
	require.NoError(t, rs.kill(rs.all["b"]))
	require.NoError(t, d.exec(ctx, "UPDATE tenants SET region = 'us'"))
	require.NoError(t, d.until(ctx, "all are in us", inRegion("us")))
	require.NoError(t, d.exec(ctx, "DELETE FROM tenants"))
	require.NoError(t, d.until(ctx, "the cloud is empty", func(context.Context) (bool, error) { return len(sky.All().Items) == 0, nil }))
	rs.mu.Lock()
	delete(rs.all, "b") // which has not stopped in order
	rs.mu.Unlock()
	require.NoError(t, rs.stop())
	cancel()
	require.NoError(t, <-served)
}
