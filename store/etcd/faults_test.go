//go:build linux

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// processes is a cluster whose members are processes, with a network between the members and one in front of them.
type processes struct {
	t       testing.TB
	dirs    []string
	servers []*servertest.Server
	clients []*servertest.Proxy // what clients dial
	peers   []*servertest.Proxy // what the other members dial
	disk    *servertest.Disk    // of a cluster that was started on one
	clocks  bool                // each server has a clock of its own
}

// startProcesses starts a cluster of n members.
func startProcesses(t testing.TB, n int) *processes {
	t.Helper()
	p := &processes{t: t}
	for range n {
		p.dirs = append(p.dirs, filepath.Join(t.TempDir(), "data"))
	}
	p.start()
	return p
}

// start starts a member in each of the directories.
func (p *processes) start() {
	t := p.t
	t.Helper()
	members := make([]member, len(p.dirs))
	var all []string
	for i := range members {
		m := &members[i]
		*m = member{Name: fmt.Sprint("m", i), Dir: p.dirs[i], Client: servertest.FreeAddr(t), Peer: servertest.FreeAddr(t)}
		p.clients, p.peers = append(p.clients, servertest.NewProxy(t, m.Client)), append(p.peers, servertest.NewProxy(t, m.Peer))
		m.DialPeer = p.peers[i].Addr()
		all = append(all, m.Name+"=http://"+m.DialPeer)
	}
	for _, m := range members {
		m.Cluster = strings.Join(all, ",")
		text, err := json.Marshal(m)
		require.NoError(t, err)
		p.servers = append(p.servers, servertest.Start(t, m.Client, func() *exec.Cmd {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), envServer+"="+string(text))
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if p.clocks {
				return servertest.OwnClock(t, c)
			}
			return c
		}, func() error { // it listens; what it is asked waits until there is a leader
			c, err := net.Dial("tcp", m.Client)
			if err == nil {
				err = c.Close()
			}
			return err
		}))
	}
	for _, s := range p.servers {
		p.await(s.Addr(), func(res *clientv3.StatusResponse) bool { return res.Leader != 0 })
	}
}

// await waits until the member at an address answers what holds says.
func (p *processes) await(addr string, holds func(res *clientv3.StatusResponse) bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if res, err := p.status(addr); err == nil && holds(res) {
			return
		}
		time.Sleep(10 * time.Millisecond) // an election takes longer
	}
	p.t.Fatalf("the member at %s is not ready after a minute", addr)
}

// near returns the addresses of the members themselves.
func (p *processes) near() string {
	var addrs []string
	for _, s := range p.servers {
		addrs = append(addrs, s.Addr())
	}
	return strings.Join(addrs, ",")
}

// far returns the addresses at the network in front of the members.
func (p *processes) far() string {
	var addrs []string
	for _, c := range p.clients {
		addrs = append(addrs, c.Addr())
	}
	return strings.Join(addrs, ",")
}

// leader returns the number of the leader and its id, once there is one.
func (p *processes) leader() (i int, id uint64) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for i, s := range p.servers {
			if res, err := p.status(s.Addr()); err == nil && res.Leader != 0 && res.Leader == res.Header.MemberId {
				return i, res.Leader
			}
		}
		time.Sleep(10 * time.Millisecond) // an election takes longer
	}
	p.t.Fatal("there is no leader after a minute")
	return 0, 0
}

func (p *processes) status(addr string) (*clientv3.StatusResponse, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	return c.Status(ctx, addr)
}

// moveLeader makes another member the leader.
func (p *processes) moveLeader() {
	p.t.Helper()
	i, id := p.leader()
	c := connect(p.t, p.servers[i].Addr())
	members, err := c.MemberList(p.t.Context())
	require.NoError(p.t, err)
	for _, m := range members.Members {
		if m.ID != id {
			_, _ = c.MoveLeader(p.t.Context(), m.ID) // it may have lost the leadership in the meantime
			return
		}
	}
}

// useUpQuota raises the alarm that a server raises when its database has reached --quota-backend-bytes, and ends it when the server
// has refused a write.
func (p *processes) useUpQuota() {
	p.t.Helper()
	ctx, c := p.t.Context(), connect(p.t, p.near())
	alarm := func(action etcdserverpb.AlarmRequest_AlarmAction) {
		p.t.Helper()
		_, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
			Action: action, Alarm: etcdserverpb.AlarmType_NOSPACE,
		})
		require.NoError(p.t, err)
	}
	alarm(etcdserverpb.AlarmRequest_ACTIVATE)
	_, err := c.Put(ctx, "another", "program")
	require.ErrorIs(p.t, err, rpctypes.ErrNoSpace)
	time.Sleep(50 * time.Millisecond) // some writes of each writer are refused too
	alarm(etcdserverpb.AlarmRequest_DEACTIVATE)
}

// clock returns what the first member says the time is.
func (p *processes) clock() time.Time {
	p.t.Helper()
	res, err := http.Get("http://" + p.servers[0].Addr() + "/version")
	require.NoError(p.t, err)
	require.NoError(p.t, res.Body.Close())
	now, err := http.ParseTime(res.Header.Get("Date"))
	require.NoError(p.t, err)
	return now
}

// While four writers in two processes write and an informer watches, something fails again and again. See package writers
// for what holds at the end.
func TestNoAcknowledgedWriteIsLostWhile(t *testing.T) {
	stall := func(proxies []*servertest.Proxy, d time.Duration) {
		for _, p := range proxies {
			p.Stall()
		}
		time.Sleep(d)
		for _, p := range proxies {
			p.Heal()
		}
	}
	const fullDisk, wrongClock = "the disk is full", "the clock of the server is an hour off"
	for _, c := range []struct {
		name    string
		members int
		slow    bool // only with many cycles
		fault   func(w *dbtest.Writers, p *processes)
	}{
		{fullDisk, 1, false, func(_ *dbtest.Writers, p *processes) {
			p.disk.Fill()
			p.servers[0].AwaitEnd() // an etcd that cannot write ends
			p.disk.Free()
			p.servers[0].Start()
		}},
		{"the quota is used up", 1, false, func(_ *dbtest.Writers, p *processes) { p.useUpQuota() }},
		{wrongClock, 1, false, func(_ *dbtest.Writers, p *processes) {
			wrong := time.Duration(2*rand.IntN(2)-1) * time.Hour
			p.servers[0].SetClock(wrong)
			require.WithinDuration(t, time.Now().Add(wrong), p.clock(), 10*time.Minute)
		}},
		{"a writer is killed", 1, false, func(w *dbtest.Writers, _ *processes) { w.KillWriter() }},
		{"the server is killed", 1, false, func(_ *dbtest.Writers, p *processes) { p.servers[0].Restart() }},
		{"the server is restarted", 1, false, func(_ *dbtest.Writers, p *processes) { p.servers[0].Stop(); p.servers[0].Start() }},
		{"all connections are cut", 1, false, func(_ *dbtest.Writers, p *processes) { p.clients[0].Cut() }},
		{"a reply is lost", 1, false, func(_ *dbtest.Writers, p *processes) { p.clients[0].CutNextReply() }},
		{"the network stalls", 1, false, func(_ *dbtest.Writers, p *processes) { stall(p.clients, 100*time.Millisecond) }},
		{"the network stalls longer", 1, true, func(_ *dbtest.Writers, p *processes) { stall(p.clients, 3*time.Second) }},
		{"connections are half-open", 1, false, func(_ *dbtest.Writers, p *processes) { p.clients[0].Hang() }}, // until a client misses its pings
		{"the network stalls until clients give up", 1, true, func(_ *dbtest.Writers, p *processes) { stall(p.clients, 13*time.Second) }},
		{"the leader is killed", 3, false, func(_ *dbtest.Writers, p *processes) { i, _ := p.leader(); p.servers[i].Restart() }},
		{"the leader changes", 3, true, func(_ *dbtest.Writers, p *processes) { p.moveLeader() }},
		{"the followers do not receive from the leader", 3, true, func(_ *dbtest.Writers, p *processes) {
			i, _ := p.leader()
			stall(p.peers[i:i+1], time.Second)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && *cycles == 1 {
				t.Skip("it takes longer; run it with -cycles=2 or more")
			}
			t.Parallel()
			p := &processes{t: t, clocks: c.name == wrongClock}
			for range c.members {
				p.dirs = append(p.dirs, filepath.Join(t.TempDir(), "data"))
			}
			if c.name == fullDisk {
				p.disk = servertest.NewDisk(t, (48+*cycles)<<20)
				p.dirs = []string{filepath.Join(p.disk.Dir, "data")}
			}
			p.start()
			w := dbtest.BeginWriters(t, open(t, p.far(), quick), p.far())
			for range *cycles {
				w.AwaitWrites(20)
				time.Sleep(rand.N(20 * time.Millisecond)) // any moment will do
				c.fault(w, p)
			}
			w.AwaitWrites(20)
			changes := w.Check(open(t, p.near(), quick))
			t.Logf("%d times, %d writes acknowledged, %d changes", *cycles, w.Writes(), changes)
		})
	}
}

// The history is trimmed while the watches are disconnected. Each one expires, and the informer lists again.
func TestNothingIsMissedWhenHistoryIsTrimmedDuringWatchGap(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 1)
	client := connect(t, p.near())
	away := dbtest.NewAway(open(t, p.near(), quick))
	w := dbtest.BeginWriters(t, away, p.near())
	for range *cycles {
		w.AwaitWrites(20)
		away.Miss(t, func() {
			w.AwaitWrites(20)
			compact(t, client)
		})
	}
	w.AwaitWrites(20)
	w.Check(nil)
	t.Logf("%d times, %d writes acknowledged, %d watches expired", *cycles, w.Writes(), away.Expired())
}

func TestLeasesSurviveFaults(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 1)
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		proxy := servertest.NewProxy(t, p.near())
		prefix := newPrefix()
		return leasetest.Backend{
			Store:    leasesAt(t, proxy.Addr(), prefix),
			Reopen:   func() leaderelect.LeaseStore { return leasesAt(t, p.near(), prefix) },
			Drop:     proxy.Stall,
			Heal:     proxy.Heal,
			CutReply: proxy.CutNextReply,
			Restart:  p.servers[0].Restart,
		}
	})
}

func TestClusterHoldsLeasesDespiteFaults(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 1)
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		cfg := etcd.Config{Prefix: newPrefix()}
		proxy := servertest.NewProxy(t, p.near())
		leases := func(addr string) leaderelect.LeaseStore { return dbtest.Leases(t, open(t, addr, cfg)) }
		return leasetest.Backend{
			Store:    leases(proxy.Addr()),
			Reopen:   func() leaderelect.LeaseStore { return leases(p.near()) },
			Drop:     proxy.Stall,
			Heal:     proxy.Heal,
			CutReply: proxy.CutNextReply,
			Restart:  p.servers[0].Restart,
		}
	})
}
