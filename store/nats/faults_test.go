//go:build linux

package nats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/internal/writers"
	"github.com/setpoint-go/setpoint/store/nats"
)

// While four writers in two processes write and an informer watches, something fails again and again. See package writers
// for what holds at the end.
func TestNoAcknowledgedWriteIsLostWhile(t *testing.T) {
	for name, fault := range map[string]func(w *writers.World, s *servertest.Server, p *servertest.Proxy){
		"a writer is killed":      func(w *writers.World, _ *servertest.Server, _ *servertest.Proxy) { w.KillWriter() },
		"the server is killed":    func(_ *writers.World, s *servertest.Server, _ *servertest.Proxy) { s.Restart() },
		"the server is restarted": func(_ *writers.World, s *servertest.Server, _ *servertest.Proxy) { s.Stop(); s.Start() },
		"all connections are cut": func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) { p.Cut() },
		"a reply is lost":         func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) { p.CutNextReply() },
		"the network stalls": func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) {
			p.Stall()
			time.Sleep(100 * time.Millisecond)
			p.Heal()
		},
		"a connection is half open": func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) {
			p.Stall()
			time.Sleep(100 * time.Millisecond)
			p.Cut() // what was sent meanwhile never arrives
			p.Heal()
		},
		"the network stalls longer": func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) {
			p.Stall()
			time.Sleep(3 * time.Second)
			p.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := process(t)
			proxy := servertest.NewProxy(t, server.Addr())
			near := reach(t, server.Addr())
			require.NoError(t, nats.Create(t.Context(), near, manyChanges))
			w := writers.Begin(t, open(t, reach(t, proxy.Addr()), manyChanges), proxy.Addr())
			w.Repeat(*cycles, func() { fault(w, server, proxy) })
			changes := w.Check(open(t, near, manyChanges))
			t.Logf("%d times, %d writes acknowledged, %d changes", *cycles, w.Writes(), changes)
		})
	}
}
