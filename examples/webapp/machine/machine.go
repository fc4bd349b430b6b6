package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Machine is the process table of this machine: it lists, starts, probes and stops replicas. Open one per process and
// directory; any number of processes may share a directory. All methods may be called by several goroutines at once.
type Machine struct {
	dir     string
	cfg     Config
	running atomic.Bool   // Run runs
	started chan struct{} // one slot; filled by Start, emptied by Run: there is a new child to look after

	mu       sync.Mutex       // guards the following
	marks    map[string]*mark // by ID: what the records do not say; at least every replica of the last List
	children map[int]*child   // by pid: processes started here that have not been waited for
}

// Replica is a process that is alive.
type Replica struct {
	ID       string    // unique at any time
	App      string    // as given to Start
	Revision string    // as given to Start
	Message  string    // as given to Start
	PID      int       // 0 while it is not on record
	Port     int       // the port of 127.0.0.1 that it listens on; 0 while Starting
	Created  time.Time // when Start was called
	State    State
}

// Addr returns the address that r listens on, "" when it does not yet.
func (r Replica) Addr() string {
	if r.Port == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port))
}

// State is how far a replica has come.
type State int

const (
	Starting  State = iota + 1 // it does not listen yet
	Running                    // it listens; no probe has succeeded yet
	Ready                      // it listens, and is healthy as far as is known
	Unhealthy                  // Config.Failures probes in a row have failed
	Draining                   // Drain was called: it serves as before, and is to get no new connections
	Stopping                   // this Machine has sent it a signal
)

// String returns the name of s.
func (s State) String() string {
	switch s {
	case Starting:
		return "Starting"
	case Running:
		return "Running"
	case Ready:
		return "Ready"
	case Unhealthy:
		return "Unhealthy"
	case Draining:
		return "Draining"
	case Stopping:
		return "Stopping"
	default:
		return "Unknown"
	}
}

// mark is what a Machine knows of a replica that its record does not say.
type mark struct {
	created  time.Time // of the replica that is meant: an ID can be used again
	draining bool      // Drain was called
	stopping time.Time // when the first signal was sent; zero before
	healthy  bool      // a probe has succeeded
	failures int       // in a row, since the last success
}

// Open returns the Machine over the directory, which is created when it is missing. It removes what a crash in the
// middle of a Start has left.
func Open(dir string, cfg Config) (*Machine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("machine: open %s: %w", dir, err)
	}
	if err := supported(); err != nil {
		return nil, fmt.Errorf("machine: open %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("machine: open: %w", err)
	}
	if err := sweep(dir); err != nil {
		return nil, fmt.Errorf("machine: open: %w", err)
	}
	return &Machine{
		dir:      dir,
		cfg:      cfg,
		started:  make(chan struct{}, 1),
		marks:    make(map[string]*mark),
		children: make(map[int]*child),
	}, nil
}

// List returns the replicas that are alive, by ID. It removes the records of the dead. A file that cannot be a record
// is left out; a record that is not whole yet is a replica that is Starting. It fails when the directory, or any
// record for want of resources, cannot be read: a replica that is alive is never left out. A directory that somebody has
// removed is made again; the replicas whose records were in it end by themselves.
func (m *Machine) List(ctx context.Context) ([]Replica, error) {
	alive, err := m.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("machine: list: %w", err)
	}
	return alive, nil
}

func (m *Machine) list(ctx context.Context) ([]Replica, error) {
	m.mu.Lock()
	before := maps.Clone(m.marks)
	m.mu.Unlock()

	names, err := recordIDs(m.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(m.dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	alive := make([]Replica, 0, len(names))
	for _, id := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r, ok, err := m.inspect(id)
		if err != nil {
			return nil, err
		}
		if ok {
			alive = append(alive, r)
		}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range alive {
		mk := m.markLocked(alive[i].ID, alive[i].Created)
		alive[i].State = mk.state(alive[i].Port, m.cfg.Failures)
		delete(before, alive[i].ID)
	}
	for id, mk := range before { // a mark made since then may belong to a replica that is newer than what was read
		if m.marks[id] == mk {
			delete(m.marks, id)
		}
	}
	return alive, nil
}

// inspect reads one record. It reports false, and removes the record, when its process is dead.
func (m *Machine) inspect(id string) (Replica, bool, error) {
	rec, err := openRecord(m.dir, id)
	if errors.Is(err, fs.ErrPermission) {
		m.cfg.Logger.Debug("machine: not a record of ours", "id", id, "error", err)
		return Replica{}, false, nil
	}
	if err != nil || rec == nil {
		return Replica{}, false, err
	}
	defer rec.Close()
	held, err := rec.held()
	if err != nil {
		return Replica{}, false, err
	}
	if held {
		r, err := rec.read()
		return r, err == nil, err
	}
	if err := rec.removeStale(); err != nil {
		m.cfg.Logger.Warn("machine: stale record stays", "id", id, "error", err)
	}
	return Replica{}, false, nil
}

// markLocked returns the mark of the replica, a new one when there is none or when it belongs to an earlier replica of
// that ID.
func (m *Machine) markLocked(id string, created time.Time) *mark {
	mk := m.marks[id]
	if mk == nil || !mk.created.Equal(created) {
		mk = &mark{created: created}
		m.marks[id] = mk
	}
	return mk
}

// state returns the state of a replica that listens on port.
func (k *mark) state(port, failures int) State {
	switch {
	case !k.stopping.IsZero():
		return Stopping
	case k.draining:
		return Draining
	case port == 0:
		return Starting
	case k.failures >= failures:
		return Unhealthy
	case k.healthy:
		return Ready
	default:
		return Running
	}
}

// ReportHealth tells the outcome of a probe of a replica that List has returned: the error of [Machine.Probe]. A success
// makes it Ready; the Config.Failures-th failure in a row makes it Unhealthy. An error that is not ErrUnhealthy says
// nothing of the replica and is ignored, as is an ID that List did not return last.
func (m *Machine) ReportHealth(id string, probe error) {
	m.update(id, func(mk *mark) {
		switch {
		case probe == nil:
			mk.healthy, mk.failures = true, 0
		case errors.Is(probe, ErrUnhealthy):
			mk.failures++
		}
	})
}

// Drain makes a replica that List has returned Draining, until it is stopped: whoever sends it connections is to stop that,
// and whoever wants it gone calls Stop when the last connection has ended. The replica itself does not notice. An ID that
// List did not return last is ignored.
func (m *Machine) Drain(id string) {
	m.update(id, func(mk *mark) { mk.draining = true })
}

// update changes a mark, if there is one, and tells of a state that has changed by that.
func (m *Machine) update(id string, change func(*mark)) {
	m.mu.Lock()
	mk := m.marks[id]
	if mk == nil {
		m.mu.Unlock()
		return
	}
	was := mk.state(1, m.cfg.Failures)
	change(mk)
	changed := mk.state(1, m.cfg.Failures) != was
	m.mu.Unlock()
	if changed {
		m.cfg.Changed()
	}
}
