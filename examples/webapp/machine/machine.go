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
// directory; any number of processes may share a directory. All methods may be called concurrently.
type Machine struct {
	dir     string
	cfg     Config
	running atomic.Bool   // Run runs
	started chan struct{} // one slot; filled by Start, emptied by Run: there is a new child to look after

	mu       sync.Mutex       // guards the following
	marks    map[string]*mark // by ID: state that is not in the records; at least every replica of the last List
	children map[int]*child   // by pid: processes started here that have not been waited for
}

// Replica is a living process.
type Replica struct {
	ID       string    // unique at any time
	App      string    // as given to Start
	Revision string    // as given to Start
	Message  string    // as given to Start
	PID      int       // 0 until it is on record
	Port     int       // the port of 127.0.0.1 that it listens on; 0 while Starting
	Created  time.Time // when Start was called
	State    State
}

// Addr returns the address that r listens on, or "" if it does not listen yet.
func (r Replica) Addr() string {
	if r.Port == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port))
}

// State is the state of a replica.
type State int

const (
	Starting  State = iota + 1 // it does not listen yet
	Running                    // it listens; no probe has succeeded yet
	Ready                      // it listens, and its last known state is healthy
	Unhealthy                  // Config.Failures consecutive probes have failed
	Draining                   // Drain was called: it serves as before, and should get no new connections
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

// mark is the state of a replica that is not in its record.
type mark struct {
	created  time.Time // identifies the replica, because an ID can be reused
	draining bool      // Drain was called
	stopping time.Time // when the first signal was sent; zero before
	healthy  bool      // a probe has succeeded
	failures int       // consecutive, since the last success
}

// Open returns the Machine over the directory, which is created if it is missing. It removes the remains of a crash in the
// middle of a Start.
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

// List returns the living replicas, by ID. It removes the records of the dead. A file that cannot be a record is left out.
// An incomplete record is a replica that is Starting. If the directory, or any record for lack of resources, cannot be
// read, List fails: a living replica is never left out. A directory that was removed is created again; the replicas whose
// records were in it end by themselves.
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
	for id, mk := range before { // a mark made since then may belong to a newer replica
		if m.marks[id] == mk {
			delete(m.marks, id)
		}
	}
	return alive, nil
}

// inspect reads one record. It returns false, and removes the record, if its process is dead.
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

// markLocked returns the mark of the replica. If there is none, or it belongs to an earlier replica with that ID,
// markLocked returns a new one.
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

// ReportHealth reports the outcome of a probe of a replica that List has returned: the error of [Machine.Probe]. A success
// makes the replica Ready. Config.Failures consecutive failures make it Unhealthy. An error other than ErrUnhealthy says
// nothing about the replica and is ignored, as is an ID that was not in the last List.
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

// Drain makes a replica that List has returned Draining until it is stopped. The caller should send it no new connections,
// and call Stop when its last connection has ended. The replica itself does not notice. An ID that was not in the last List
// is ignored.
func (m *Machine) Drain(id string) {
	m.update(id, func(mk *mark) { mk.draining = true })
}

// update changes a mark, if there is one, and reports a change of state.
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
