//go:build linux

package nats_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/nats"
)

// broken is what a fault breaks.
type broken struct {
	w      *dbtest.Writers
	server *servertest.Server
	proxy  *servertest.Proxy
	near   jetstream.JetStream // past the proxy
	disk   *servertest.Disk
}

// While four writers in two processes write and an informer watches, something fails again and again. See package writers
// for what holds at the end.
func TestNoAcknowledgedWriteIsLostWhile(t *testing.T) {
	stall := func(d time.Duration, then func(b *broken)) func(*testing.T, *broken) {
		return func(_ *testing.T, b *broken) {
			b.proxy.Stall()
			time.Sleep(d)
			then(b)
			b.proxy.Heal()
		}
	}
	const disk, clock = "the disk is full", "the clock of the server is an hour off"
	for name, fault := range map[string]func(*testing.T, *broken){
		"a writer is killed":        func(_ *testing.T, b *broken) { b.w.KillWriter() },
		"the server is killed":      func(_ *testing.T, b *broken) { b.server.Restart() },
		"the server is restarted":   func(_ *testing.T, b *broken) { b.server.Stop(); b.server.Start() },
		"all connections are cut":   func(_ *testing.T, b *broken) { b.proxy.Cut() },
		"a reply is lost":           func(_ *testing.T, b *broken) { b.proxy.CutNextReply() },
		"the network stalls":        stall(100*time.Millisecond, func(*broken) {}),
		"the network stalls longer": stall(3*time.Second, func(*broken) {}),
		"data in flight is lost":    stall(100*time.Millisecond, func(b *broken) { b.proxy.Cut() }),
		"connections are half-open": func(_ *testing.T, b *broken) { b.proxy.Hang() }, // until a client misses its pings
		disk: func(t *testing.T, b *broken) {
			db := open(t, b.near, manyChanges)
			b.disk.Fill()
			require.Eventually(t, func() bool { // a stream that cannot write refuses writes until a restart
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				_, err := put(ctx, db, "Other", "x", "1")
				return err != nil
			}, time.Minute, time.Millisecond)
			b.disk.Free()
			b.server.Stop()
			b.server.Start()
		},
		clock: func(t *testing.T, b *broken) {
			wrong := time.Duration(2*rand.IntN(2)-1) * time.Hour
			b.server.SetClock(wrong)
			stream, err := b.near.Stream(t.Context(), "setpoint")
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(wrong), stream.CachedInfo().TimeStamp, 10*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b broken
			how := daemon{clock: name == clock}
			if name == disk {
				b.disk = servertest.NewDisk(t, (48+*cycles)<<20)
				how.dir = filepath.Join(b.disk.Dir, "data")
			}
			b.server = how.start(t)
			b.proxy = servertest.NewProxy(t, b.server.Addr())
			b.near = reach(t, b.server.Addr())
			require.NoError(t, nats.Create(t.Context(), b.near, manyChanges))
			b.w = dbtest.BeginWriters(t, open(t, reach(t, b.proxy.Addr()), manyChanges), b.proxy.Addr())
			b.w.Repeat(*cycles, func() { fault(t, &b) })
			changes := b.w.Check(open(t, b.near, manyChanges))
			t.Logf("%d times, %d writes acknowledged, %d changes", *cycles, b.w.Writes(), changes)
		})
	}
}

// The history is trimmed while the watches are disconnected. Each one expires, and the informer lists again.
func TestNothingIsMissedWhenHistoryIsTrimmedDuringWatchGap(t *testing.T) {
	t.Parallel()
	server := process(t)
	js := reach(t, server.Addr())
	require.NoError(t, nats.Create(t.Context(), js, fewChanges))
	db := open(t, js, fewChanges)
	db.SetGrace(soon)
	away := dbtest.NewAway(db)
	w := dbtest.BeginWriters(t, away, "trim "+server.Addr())
	w.Repeat(*cycles, func() {
		away.Miss(t, func() {
			for before := state(t, js, "setpoint"); ; { // until something is removed that the watches have not read
				w.AwaitWrites(100)
				now := state(t, js, "setpoint")
				if now.FirstSeq > before.LastSeq || now.LastSeq-before.LastSeq > now.Msgs {
					return
				}
			}
		})
	})
	w.Check(nil)
	t.Logf("%d times, %d writes acknowledged, %d watches expired", *cycles, w.Writes(), away.Expired())
}
