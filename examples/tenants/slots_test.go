//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
)

// pages has the address of each replica's page, by the name of the replica.
type pages struct {
	mu sync.Mutex
	// mu guards the following.
	address map[string]string
}

// hear takes note of a line that a replica has printed.
func (p *pages) hear(line string) {
	name, said, _ := strings.Cut(line, ": ")
	var address string
	if n, _ := fmt.Sscanf(said, "serves %s and", &address); n == 1 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.address[name] = address
	}
}

func (p *pages) of(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address[name]
}

// slotsShown is what a page says about the slots, as JSON.
type slotsShown struct {
	Slots []struct {
		Name    string `json:"name"`
		Owned   int    `json:"owned"`
		Members []any  `json:"members"`
		Slots   []struct {
			Owner string `json:"owner"`
			Here  bool   `json:"here"`
		} `json:"slots"`
	} `json:"slots"`
}

// shared returns how many slots the named replicas own, and whether all their pages agree that they are the only members, that each
// slot has an owner, and how many of the slots are theirs.
func (p *pages) shared(t *testing.T, names ...string) (owned int, agree bool) {
	t.Helper()
	agree = true
	for _, name := range names {
		var s slotsShown
		require.NoError(t, json.Unmarshal([]byte(served(t, p.of(name), "?format=json")), &s))
		require.Len(t, s.Slots, 1)
		here, free := 0, 0
		for _, slot := range s.Slots[0].Slots {
			if slot.Here {
				here++
			}
			if slot.Owner == "" {
				free++
			}
		}
		owned += here
		agree = agree && free == 0 && here == s.Slots[0].Owned && len(s.Slots[0].Members) == len(names)
	}
	return owned, agree
}

// With -slots, each replica works on its share of the keys, and the others take over the share of one that is killed. The pages show
// the owner of each slot.
func TestReplicasShareTenantsBySlots(t *testing.T) {
	t.Setenv(asProgram, "1") // of the replicas
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	sky, err := cloud.New(cloud.Config{PerSecond: 100, Latency: time.Millisecond})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, sky) }() // ends with ctx
	address := "sqlite:" + filepath.Join(t.TempDir(), "tenants.db")
	db, err := openDatabase(ctx, address, true)
	require.NoError(t, err)
	defer db.close()
	const slots = 6
	shows := &pages{address: make(map[string]string)}
	rs := &replicas{
		args: []string{"-store", address, "-cloud", "http://" + l.Addr().String(), "-lease", "3s", "-slots", strconv.Itoa(slots), "-rate", "50"},
		tell: func(line string) { shows.hear(line); t.Log(line) }, all: make(map[string]*replica), over: make(map[string]bool),
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
	ownedBy := func(names ...string) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) {
			owned, agree := shows.shared(t, names...)
			return owned == slots && agree, nil
		}
	}
	require.NoError(t, d.until(ctx, "the pages show that three replicas share the slots", ownedBy("a", "b", "c")))
	require.NoError(t, rs.kill(rs.all["b"]))
	require.NoError(t, d.exec(ctx, "UPDATE tenants SET region = 'us'"))
	require.NoError(t, d.until(ctx, "all are in us", inRegion("us")))
	require.NoError(t, d.until(ctx, "the pages show that two replicas share the slots", ownedBy("a", "c")))
	metrics := served(t, strings.TrimSuffix(shows.of("a"), "/debug/"), "/metrics")
	require.Contains(t, metrics, `setpoint_slots{name="tenants-slots"} 6`)
	require.Contains(t, metrics, `setpoint_slots_owned{name="tenants-slots"} 3`)
	require.NoError(t, d.exec(ctx, "DELETE FROM tenants"))
	require.NoError(t, d.until(ctx, "the cloud is empty", func(context.Context) (bool, error) { return len(sky.All().Items) == 0, nil }))
	rs.mu.Lock()
	delete(rs.all, "b") // which has not stopped in order
	rs.mu.Unlock()
	require.NoError(t, rs.stop())
	cancel()
	require.NoError(t, <-ended)
}
