package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/store"
)

// The guarantees of the package, over random schedules. Three processes take turns as the leader and call two services by real HTTP. A process may
// be suspended at any byte that it sends, reads, or gets from the body of a request; then it does not notice that it has lost the lease. The network
// delays what was sent before. A service may end and begin again, with its guards raised from the lease. Each service has a value of its own, and
// both write to one store.
//
// Each schedule takes its random numbers from its own seed. LEADERELECT_MODEL=full runs 20,000 of them.

// schedules is the number of schedules.
func schedules() int {
	if os.Getenv("LEADERELECT_MODEL") == "full" {
		return 20_000
	}
	return 250
}

// unhurried is longer than any request of a leader takes that nothing has suspended or cut off, and shorter than a suspension.
const unhurried = 10 * time.Second

func TestRandomSchedulesKeepGuarantees(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(schedules()) {
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				m.play()
				m.judge()
				for what, n := range m.seen {
					seen[what] += n
				}
			})
		})
		if !ok {
			return
		}
	}
	t.Log(seen)
	for _, what := range []string{
		"done", "stale by server", "stale by store", "not sent", "canceled", "lost", "restart", "suspended in flight", "suspended in body", "barred by read",
	} {
		require.NotZero(t, seen[what], "no schedule has %q", what)
	}
}

// model is one schedule.
type model struct {
	t      *testing.T
	random *rand.Rand
	all    sync.WaitGroup // requests and suspensions
	wires  sync.WaitGroup // connections and servers
	texts  store.Store[[]uint64]

	mu sync.Mutex
	// mu guards the following.
	dice      *rand.Rand // for goroutines: the order in which they ask is not random only by the seed
	term      uint64
	leader    *process
	processes []*process
	services  []*service
	calls     []*call
	seen      map[string]int
	faults    []string
}

// process is a client of the services.
type process struct {
	m      *model
	name   string
	client *http.Client
	way    *http.Transport

	// m.mu guards the following.

	work    context.Context // of its last leadership
	depose  func(error)
	over    bool          // it was deposed, and could have noticed
	late    []func()      // what it notices when it is resumed
	running chan struct{} // closed while it runs
}

// service is one of the services, over all its lives.
type service struct {
	m          *model
	name       string
	restarting chan struct{} // has a value during a restart

	// m.mu guards the following.

	life   int
	l      *listener
	server *http.Server
	fences *fencehttp.Server
	floor  uint64         // the greatest term that it has served, or that has read
	inside map[uint64]int // requests in progress, by term
	done   []string       // the calls that it has done
}

// call is a request of a process.
type call struct {
	id            string
	by            *process
	to            *service
	term          uint64
	read          bool
	afterTerm     bool // its leadership was over before, and the process could have noticed
	disturbed     bool // suspended, deposed, cut off
	begun, ended  time.Time
	status        int
	err           error
	stale         error
	deposed       time.Time // when the process noticed that the leadership is over, if during the call
	suspendedOnce bool
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), dice: rand.New(rand.NewPCG(seed, 2)), seen: make(map[string]int),
	}
	var err error
	m.texts, err = store.Open(store.NewMemory(store.MemoryConfig{}), "Log", store.Config[[]uint64]{})
	require.NoError(t, err)
	for _, name := range []string{"blue", "green"} {
		s := &service{m: m, name: name, restarting: make(chan struct{}, 1)}
		m.services = append(m.services, s)
		s.start()
	}
	for _, name := range []string{"a", "b", "c"} {
		p := &process{m: m, name: name, running: make(chan struct{})}
		close(p.running)
		p.way = &http.Transport{DialContext: p.dial, DisableKeepAlives: m.random.IntN(2) == 0}
		p.client = &http.Client{Transport: &fencehttp.Transport{Base: p.way}}
		m.processes = append(m.processes, p)
	}
	return m
}

// roll returns a random number below n, for goroutines.
func (m *model) roll(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dice.IntN(n)
}

func (m *model) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[what]++
}

// fault notes a violation. The caller holds m.mu.
func (m *model) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// play plays the schedule.
func (m *model) play() {
	m.elect()
	for range 60 {
		switch r := m.random.IntN(100); {
		case r < 50:
			m.request()
		case r < 62:
			m.elect()
		case r < 72:
			m.suspend()
		case r < 76:
			m.services[m.random.IntN(2)].restart()
		case r < 80:
			time.Sleep(time.Duration(m.random.Int64N(int64(unhurried))))
		default:
			time.Sleep(time.Duration(m.random.IntN(400)) * time.Millisecond)
		}
	}
	time.Sleep(unhurried)
	for _, p := range m.processes {
		p.resume(0)
	}
	time.Sleep(unhurried)
	m.mu.Lock()
	for _, p := range m.processes {
		if p.depose != nil {
			p.depose(nil)
		}
	}
	m.mu.Unlock()
	m.all.Wait()
	for _, p := range m.processes {
		p.way.CloseIdleConnections()
	}
	for _, s := range m.services {
		s.server.Close()
	}
	m.wires.Wait() // for what is still in the network
}

// elect makes another process the leader. A former leader that is suspended does not notice.
func (m *model) elect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	awake := slices.DeleteFunc(slices.Clone(m.processes), func(p *process) bool { return p.suspended() })
	if len(awake) == 0 {
		return
	}
	if old := m.leader; old != nil {
		lose := old.losing()
		if old.suspended() {
			old.late = append(old.late, lose)
		} else {
			lose()
		}
	}
	m.term++
	m.leader = awake[m.random.IntN(len(awake))]
	p := m.leader
	p.work, p.depose = leaderelect.Appoint(context.Background(), "shop", m.term)
	p.over = false
}

// losing returns what ends the present leadership of p. The caller holds m.mu then, too.
func (p *process) losing() func() {
	work, depose := p.work, p.depose
	l, _ := leaderelect.FromContext(work)
	return func() {
		depose(leaderelect.ErrLeaseTaken)
		if p.work == work {
			p.over = true
		}
		for _, c := range p.m.calls {
			if c.by == p && c.term == l.Term() && c.ended.IsZero() {
				c.deposed, c.disturbed = time.Now(), true
			}
		}
	}
}

func (p *process) suspended() bool {
	select {
	case <-p.running:
		return false
	default:
		return true
	}
}

// suspend suspends a process for longer than any lease, and its timers.
func (m *model) suspend() {
	m.mu.Lock()
	p := m.processes[m.random.IntN(len(m.processes))]
	if m.random.IntN(2) == 0 {
		p = m.leader
	}
	if p.suspended() {
		m.mu.Unlock()
		return
	}
	p.running = make(chan struct{})
	for _, c := range m.calls {
		if c.by == p && c.ended.IsZero() {
			c.disturbed, c.suspendedOnce = true, true
			m.seen["suspended in flight"]++
		}
	}
	m.mu.Unlock()
	first := time.Duration(m.random.IntN(600)-200) * time.Millisecond
	pause := unhurried + time.Duration(m.random.Int64N(int64(2*unhurried)))
	if m.random.IntN(2) == 0 {
		pause = time.Duration(m.random.IntN(2000)) * time.Millisecond
	}
	restarts := m.services[m.random.IntN(2)]
	if m.random.IntN(3) > 0 {
		restarts = nil
	}
	m.all.Go(func() { // ends after the pause
		time.Sleep(pause)
		if restarts != nil {
			restarts.restart()
		}
		p.resume(first)
	})
}

// resume resumes a process. What it has missed happens before anything else, or some time after it.
func (p *process) resume(missed time.Duration) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if !p.suspended() {
		return
	}
	late := p.late
	p.late = nil
	notice := func() {
		for _, f := range late {
			f()
		}
	}
	running := p.running
	if missed < 0 {
		notice()
	}
	close(running)
	if missed >= 0 {
		p.m.mu.Unlock()
		time.Sleep(missed)
		p.m.mu.Lock()
		notice()
	}
}

// gate returns while the process runs.
func (p *process) gate() (stopped bool) {
	for {
		p.m.mu.Lock()
		running := p.running
		p.m.mu.Unlock()
		select {
		case <-running:
			return stopped
		default:
			stopped = true
			<-running
		}
	}
}

// request begins a request: of the leader, or of a process that has led before.
func (m *model) request() {
	m.mu.Lock()
	p := m.leader
	if m.random.IntN(4) == 0 {
		p = m.processes[m.random.IntN(len(m.processes))]
	}
	if p.work == nil || p.suspended() {
		m.mu.Unlock()
		return
	}
	l, _ := leaderelect.FromContext(p.work)
	c := &call{
		id: fmt.Sprintf("%s-%d", p.name, len(m.calls)), by: p, to: m.services[m.random.IntN(2)], term: l.Term(), read: m.random.IntN(5) == 0,
		afterTerm: p.over, disturbed: p.over || p != m.leader, begun: time.Now(),
	}
	m.calls = append(m.calls, c)
	m.mu.Unlock()
	ctx, pieces := p.work, m.random.IntN(4)
	if m.random.IntN(2) == 0 {
		ctx = l.NewContext(context.Background()) // does not end with the leadership
	}
	m.all.Go(func() { c.send(ctx, pieces) }) // ends with its request
}

// send makes the request.
func (c *call) send(ctx context.Context, pieces int) {
	method, body := http.MethodGet, io.ReadCloser(nil)
	if !c.read {
		method, body = http.MethodPost, io.NopCloser(&slowBody{c: c, pieces: pieces})
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.to.name+"/"+c.id, body)
	if err != nil {
		panic(err)
	}
	resp, err := c.by.client.Do(req)
	var stale error
	status := 0
	if err == nil {
		stale, status = fencehttp.Check(resp), resp.StatusCode
		if _, cut := readAll(resp); cut != nil {
			err = cut
		}
	}
	c.by.gate()
	m := c.by.m
	m.mu.Lock()
	defer m.mu.Unlock()
	c.status, c.err, c.stale, c.ended = status, err, stale, time.Now()
}

// slowBody is a body in pieces.
type slowBody struct {
	c      *call
	pieces int
}

func (b *slowBody) Read(p []byte) (int, error) {
	m := b.c.by.m
	time.Sleep(time.Duration(m.roll(30)) * time.Millisecond)
	if b.c.by.gate() {
		m.note("suspended in body")
	}
	if b.pieces == 0 {
		return 0, io.EOF
	}
	b.pieces--
	for i := range p {
		p[i] = 'x'
	}
	return min(len(p), 1+m.roll(3000)), nil
}

// dial opens a connection to a service, over a network that delays.
func (p *process) dial(ctx context.Context, _, address string) (net.Conn, error) {
	m := p.m
	time.Sleep(time.Duration(m.roll(50)) * time.Millisecond)
	p.gate() // between the check of the leadership and the first byte
	m.mu.Lock()
	i := slices.IndexFunc(m.services, func(s *service) bool { return s.name+":80" == address })
	l := m.services[i].l
	m.mu.Unlock()
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &lateConn{Conn: conn, p: p, queue: make(chan []byte, 1000)}
	c.close = sync.OnceFunc(func() { close(c.queue) })
	m.wires.Go(c.deliver)
	return c, nil
}

// lateConn is a connection of a process. Sent bytes arrive, even if the process is suspended or has closed the connection since.
type lateConn struct {
	net.Conn
	p     *process
	close func()

	mu sync.Mutex
	// mu guards the following.
	queue  chan []byte // what is in the network
	closed bool
}

func (c *lateConn) Write(b []byte) (int, error) {
	n := 0
	for len(b) > 0 {
		c.p.gate()
		piece := b[:min(len(b), 1+c.p.m.roll(2000))]
		c.mu.Lock()
		closed := c.closed
		if !closed {
			c.queue <- slices.Clone(piece)
		}
		c.mu.Unlock()
		if closed {
			return n, net.ErrClosed
		}
		b, n = b[len(piece):], n+len(piece)
	}
	return n, nil
}

func (c *lateConn) Read(b []byte) (int, error) {
	c.p.gate()
	return c.Conn.Read(b)
}

func (c *lateConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.close()
	return nil
}

// deliver delivers what was sent. It ends after the connection was closed, or has broken.
func (c *lateConn) deliver() {
	broken := false
	for piece := range c.queue {
		latency := time.Duration(c.p.m.roll(40)) * time.Millisecond
		if c.p.m.roll(20) == 0 {
			latency = time.Duration(c.p.m.roll(2000)) * time.Millisecond
		}
		time.Sleep(latency)
		if !broken {
			_, err := c.Conn.Write(piece)
			broken = err != nil
		}
	}
	time.Sleep(time.Duration(c.p.m.roll(1000)) * time.Millisecond) // the end of the connection is late too
	c.Conn.Close()
}

// start begins a life of the service.
func (s *service) start() {
	fences, err := fencehttp.NewServer(fencehttp.ServerConfig{Lease: shop})
	require.NoError(s.m.t, err)
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.term > 0 {
		require.NoError(s.m.t, fences.Guard("shop").Raise(s.m.term)) // as the lease says
	}
	s.life++
	s.fences, s.l, s.inside = fences, newListener(), make(map[uint64]int)
	life := s.life
	s.server = &http.Server{ErrorLog: silent(), Handler: fences.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(life, w, r)
	}))}
	server, l := s.server, s.l
	s.m.wires.Go(func() { _ = server.Serve(l) }) // ends with the life
}

// restart ends the service as a crash does, and starts it again.
func (s *service) restart() {
	s.restarting <- struct{}{}
	defer func() { <-s.restarting }()
	s.m.mu.Lock()
	s.life++ // what still runs changes nothing anymore
	for _, c := range s.m.calls {
		if c.to == s && c.ended.IsZero() {
			c.disturbed = true
		}
	}
	s.m.seen["restart"]++
	s.m.mu.Unlock()
	s.server.Close()
	s.start()
}

// serve is the handler.
func (s *service) serve(life int, w http.ResponseWriter, r *http.Request) {
	m, id := s.m, r.URL.Path[1:]
	f, fenced := store.FenceFrom(r.Context())
	m.mu.Lock()
	alive := s.life == life
	if !fenced || f.Lease != "shop" || r.Header.Get("Leader-Term") != strconv.FormatUint(f.Term, 10) {
		m.fault("%s serves %s with the fence %v: guarantees 3 and 9", s.name, id, f)
	}
	i := slices.IndexFunc(m.calls, func(c *call) bool { return c.id == id })
	if m.calls[i].afterTerm {
		m.fault("%s serves %s, which was sent after its leadership: guarantee 1", s.name, id)
	}
	if r.Method == http.MethodGet {
		if alive {
			if f.Term > s.floor {
				m.seen["barred by read"]++
			}
			s.floor = max(s.floor, f.Term)
			for other := range s.inside {
				if other < f.Term {
					m.fault("%s reads for term %d while term %d works: guarantee 8", s.name, f.Term, other)
				}
			}
		}
		m.mu.Unlock()
		return
	}
	if alive {
		if f.Term < s.floor {
			m.fault("%s does %s of term %d after term %d: guarantees 5 and 8", s.name, id, f.Term, s.floor)
		}
		s.floor = max(s.floor, f.Term)
		for other := range s.inside {
			if other != f.Term {
				m.fault("%s works in terms %d and %d at a time: guarantee 6", s.name, f.Term, other)
			}
		}
		s.inside[f.Term]++
	}
	m.mu.Unlock()
	_, err := io.Copy(io.Discard, r.Body)
	time.Sleep(time.Duration(m.roll(200)) * time.Millisecond)
	m.mu.Lock()
	alive = s.life == life
	if alive {
		if err != nil {
			m.fault("%s gets a part of the body of %s: guarantee 7", s.name, id)
		}
		s.done = append(s.done, id)
		if s.inside[f.Term]--; s.inside[f.Term] == 0 {
			delete(s.inside, f.Term)
		}
	}
	m.mu.Unlock()
	if !alive {
		panic(http.ErrAbortHandler) // a process that has ended does not answer
	}
	_, err = store.CreateOrUpdate(r.Context(), m.texts, "log", func(o *store.Object[[]uint64]) error {
		o.Value = append(o.Value, f.Term)
		return nil
	})
	if fencehttp.Refuse(w, err) {
		m.note("stale by store")
		return
	}
	_, _ = w.Write(make([]byte, m.roll(10_000)))
}

// judge checks what has happened.
func (m *model) judge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	written, err := m.texts.Get(m.t.Context(), "log")
	if err == nil && !slices.IsSorted(written.Value) {
		m.fault("the store has the terms %v: guarantee 9", written.Value)
	}
	for _, c := range m.calls {
		m.judgeCall(c)
	}
	require.Empty(m.t, m.faults)
}

func (m *model) judgeCall(c *call) {
	done := 0
	for _, id := range c.to.done {
		if id == c.id {
			done++
		}
	}
	if done > 1 {
		m.fault("%s is done %d times", c.id, done)
	}
	fenced := c.err != nil && isFenced(c.err)
	switch {
	case c.ended.IsZero():
		m.fault("%s has not ended", c.id)
	case c.afterTerm:
		m.seen["not sent"]++
		if !fenced || !errors.Is(c.err, leaderelect.ErrLeaseTaken) || done > 0 {
			m.fault("%s of a leadership that is over: %v: guarantee 1", c.id, c.err)
		}
	case c.err != nil && !fenced && c.to.life > 1: // the idle connection was of an earlier life
		m.seen["lost"]++
	case !c.disturbed && (c.status != http.StatusOK || c.err != nil || c.ended.Sub(c.begun) > unhurried):
		m.fault("%s of the leader, which nothing has disturbed: status %d, error %v, stale %v, after %v: guarantee 7",
			c.id, c.status, c.err, c.stale, c.ended.Sub(c.begun))
	case c.status == http.StatusOK && c.err == nil:
		m.seen["done"]++
		if !c.read && done != 1 {
			m.fault("%s has succeeded and is done %d times", c.id, done)
		}
	case c.status == http.StatusPreconditionFailed && c.err == nil:
		stale := new(fence.StaleError)
		if !errors.As(c.stale, &stale) || stale.Term != c.term || stale.Lease != "shop" || stale.Have <= c.term || stale.Have > m.term {
			m.fault("%s is refused: %v", c.id, c.stale)
		}
		m.seen["stale by server"]++
	case fenced:
		m.seen["canceled"]++
	case c.err != nil:
		m.seen["lost"]++
	default:
		m.seen[fmt.Sprint("status ", c.status)]++
	}
	// Its process has noticed the end of the leadership, and was not suspended. It has waited at most for one piece of its body.
	if !c.deposed.IsZero() && !c.suspendedOnce && c.ended.Sub(c.deposed) > 100*time.Millisecond {
		m.fault("%s has ended %v after its leadership: guarantee 2", c.id, c.ended.Sub(c.deposed))
	}
}
