package leaderelect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// fault is a fault of a call: by the network, or by an operator of the store.
type fault int

const (
	none          fault = iota
	lostRequest         // never arrives; an error at once
	lostReply           // arrives; an error at once
	slowReply           // arrives, and the reply takes d
	slowRequest         // arrives after d, whether the caller still waits or not
	lateRequest         // the same, and an error at once
	stall               // never arrives; no reply
	stallLate           // arrives; no reply
	hang                // never arrives; no reply, and the caller's context is ignored
	hangLate            // arrives; no reply, and the caller's context is ignored
	partition           // this call and those of the next d stall
	outage              // this call and those of the next d hang: they never return, whatever their contexts say
	cutAfter            // arrives; no reply, and the calls of the next d stall
	conflictAfter       // arrives; but the reply is ErrConflict, as of a driver that tried twice
	falseConflict       // never arrives; but the reply of a write is ErrConflict, as after an old read
	foreignWrite        // another writer takes the lease just before
	deleteRecord        // the record is deleted just before
	rollBack            // an older record is restored just before: the first, or one that d picks
	raise               // the same with a greater term than the present record has: the latest of the party that d picks
	scribble            // a foreign tool writes valid JSON that is not a record just before; d picks which
	pauseBefore         // the process is stopped for d before the request
	pauseAfter          // the process is stopped for d before it sees the reply
	silent              // the watch of the party reports nothing any more
	endOfFaults
)

// String returns the name of f, for the names of tests.
func (f fault) String() string {
	return [...]string{
		"no fault", "a lost request", "a lost reply", "a slow reply", "a slow request", "a late request", "a stall",
		"a stall after the write", "a hang", "a hang after the write", "a partition", "an outage", "a partition after the write", "a conflict after the write",
		"a false conflict", "a foreign write", "a deleted record", "a restored record", "a restored record with a raised term", "a foreign tool",
		"a pause before the request", "a pause before the reply", "a silent watch",
	}[f]
}

var errNetwork = errors.New("connection reset")

// latency is the duration of a call. A request takes half of it.
const latency = 2 * time.Millisecond

// network is a store, and the connections of its callers.
type network struct {
	mu sync.Mutex
	// mu guards the following.
	entry     *leaderelect.Entry // the record; nil if there is none
	writes    int
	plan      func(call) (fault, time.Duration) // nil is none
	calls     int
	healed    chan struct{}        // closed by heal: the end of hanging
	dark      map[string]time.Time // until then the calls of a party stall
	dead      map[string]time.Time // until then they hang
	first     *leaderelect.Entry   // the first record
	committed []commit
	forgot    bool            // the store has forgotten something
	scribbled bool            // there was something that is not a record
	onCommit  func(commit)    // called with mu held
	changed   chan struct{}   // closed by the next write
	silenced  map[string]bool // whose watches report nothing
	watches   int
	paused    map[string]time.Time                // until then the process is stopped
	onPause   func(party string, d time.Duration) // called with mu held
	mayForget func() bool                         // called with mu held; nil is always
}

// call is a call that is about to be made.
type call struct {
	n     int // from 1, of all callers
	party string
	op    string // get, create, update
	now   time.Time
}

// commit is a write that has happened.
type commit struct {
	party string
	entry leaderelect.Entry
	at    time.Time
}

// rec returns the record. It is decoded on demand, because decoding takes much of the time of the model.
func (c commit) rec() (rec record) {
	_ = json.Unmarshal(c.entry.Value, &rec)
	return rec
}

// releases reports whether it was a tombstone.
func (c commit) releases() bool { return bytes.Contains(c.entry.Value, []byte(`"holder":""`)) }

// record is the value of an entry, as others may read it.
type record struct {
	Holder      string            `json:"holder"`
	Released    bool              `json:"released,omitzero"`
	Incarnation string            `json:"incarnation"`
	Term        uint64            `json:"term"`
	Renewal     uint64            `json:"renewal"`
	LeaseMillis int64             `json:"leaseMillis"`
	Metadata    map[string]string `json:"metadata"`
	Preferred   string            `json:"preferred"`
	Session     string            `json:"session"`
	Fenced      bool              `json:"fenced"`
}

func newNetwork() *network {
	return &network{
		healed: make(chan struct{}), changed: make(chan struct{}),
		dark: make(map[string]time.Time), dead: make(map[string]time.Time), silenced: make(map[string]bool),
		paused: make(map[string]time.Time),
	}
}

// heal ends all faults, including those of calls in flight.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plan = nil
	clear(n.dark)
	clear(n.dead)
	clear(n.paused)
	clear(n.silenced)
	n.wakeLocked()
	close(n.healed)
	n.healed = make(chan struct{})
}

// cut makes every call of party stall for d.
func (n *network) cut(party string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dark[party] = time.Now().Add(d)
}

// history returns all writes so far.
func (n *network) history() []commit {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.committed
}

// link is the store as one party reaches it.
type link struct {
	*network
	party string
	slow  float64 // its clock: how many seconds its second takes
}

// convert changes the lease in a record to another clock. It does not decode the record either.
func convert(e leaderelect.Entry, factor float64) leaderelect.Entry {
	before, after, found := bytes.Cut(e.Value, []byte(`"leaseMillis":`))
	if factor == 1 || !found {
		return e
	}
	end := bytes.IndexAny(after, ",}")
	millis, err := strconv.ParseInt(string(after[:end]), 10, 64)
	if err != nil {
		panic(err) // all records are ours
	}
	e.Value = fmt.Appendf(nil, `%s"leaseMillis":%d%s`, before, int64(float64(millis)*factor), after[end:])
	return e
}

func (l link) Get(ctx context.Context, _ string) (leaderelect.Entry, error) {
	e, err := l.call(ctx, "get", l.load)
	return convert(e, l.slow), err
}

func (l link) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	e.Version = ""
	return l.call(ctx, "create", func() (leaderelect.Entry, error) { return l.swap(l.party, convert(e, 1/l.slow)) })
}

func (l link) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return l.call(ctx, "update", func() (leaderelect.Entry, error) { return l.swap(l.party, convert(e, 1/l.slow)) })
}

// load handles a Get at the store.
func (n *network) load() (leaderelect.Entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.entry == nil {
		return leaderelect.Entry{}, leaderelect.ErrNotFound
	}
	return *n.entry, nil
}

// swap handles a write at the store. It replaces the version of e; "" means that there is no record.
func (n *network) swap(party string, e leaderelect.Entry) (leaderelect.Entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	version := ""
	if n.entry != nil {
		version = n.entry.Version
	}
	if e.Version != version {
		return leaderelect.Entry{}, leaderelect.ErrConflict
	}
	n.putLocked(party, e)
	return *n.entry, nil
}

func (n *network) putLocked(party string, e leaderelect.Entry) {
	n.writes++
	e.Version = strconv.Itoa(n.writes)
	n.entry = &e
	if n.first == nil {
		n.first = &e
	}
	c := commit{party: party, entry: e, at: time.Now()}
	n.committed = append(n.committed, c)
	n.wakeLocked()
	if n.onCommit != nil {
		n.onCommit(c)
	}
}

// wakeLocked wakes all watches.
func (n *network) wakeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// watchedLink is a link that reports changes.
type watchedLink struct{ link }

func (l watchedLink) Watch(ctx context.Context, _ string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		l.mu.Lock()
		l.watches++
		first, silent := true, l.silenced[l.party] // a watch that is silenced stays silenced; the next one is not
		delete(l.silenced, l.party)
		l.mu.Unlock()
		for yielded := ""; ; {
			l.mu.Lock()
			e := leaderelect.Entry{Key: key}
			if l.entry != nil {
				e = *l.entry
			}
			changed, dark := l.changed, time.Until(l.dark[l.party])
			l.mu.Unlock()
			if dark > 0 {
				changed = make(chan struct{}) // it is yielded when the cut is over
				time.AfterFunc(dark, func() { close(changed) })
			}
			if dark <= 0 && !silent && (first || e.Version != yielded) {
				if wait.Sleep(ctx, latency/2) != nil {
					return
				}
				l.resume(l.party)
				first, yielded = false, e.Version
				if !yield(convert(e, l.slow), nil) {
					return
				}
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			l.mu.Lock()
			silent = silent || l.silenced[l.party]
			l.mu.Unlock()
		}
	}
}

// call makes a call with the fault that the plan has for it.
func (l link) call(ctx context.Context, op string, arrive func() (leaderelect.Entry, error)) (leaderelect.Entry, error) {
	l.mu.Lock()
	l.calls++
	f, d := none, time.Duration(0)
	if l.plan != nil {
		f, d = l.plan(call{n: l.calls, party: l.party, op: op, now: time.Now()})
	}
	if f == partition {
		l.dark[l.party] = time.Now().Add(d)
	}
	if time.Now().Before(l.dark[l.party]) {
		f = stall
	}
	if f == outage {
		l.dead[l.party] = time.Now().Add(d)
	}
	if time.Now().Before(l.dead[l.party]) {
		f = hang
	}
	if f == silent {
		l.silenced[l.party] = true
		l.wakeLocked()
	}
	healed := l.healed
	l.mu.Unlock()
	if f == pauseBefore {
		l.pause(l.party, d)
	}
	l.resume(l.party)

	switch f {
	case lostRequest:
		return leaderelect.Entry{}, errNetwork
	case falseConflict:
		if op != "get" {
			return leaderelect.Entry{}, leaderelect.ErrConflict
		}
	case stall:
		<-ctx.Done()
		return leaderelect.Entry{}, ctx.Err()
	case hang:
		<-healed
		return leaderelect.Entry{}, errNetwork
	case lateRequest:
		time.AfterFunc(d, func() { _, _ = arrive() })
		return leaderelect.Entry{}, errNetwork
	case slowRequest:
		time.AfterFunc(d, func() { _, _ = arrive() })
		if err := wait.Sleep(ctx, d+latency); err != nil {
			return leaderelect.Entry{}, err
		}
		return leaderelect.Entry{}, errNetwork // the one that arrived had no reply
	case foreignWrite, deleteRecord, rollBack, raise, scribble:
		l.meddle(f, d)
	}

	if err := wait.Sleep(ctx, latency/2); err != nil {
		return leaderelect.Entry{}, err
	}
	e, err := arrive()
	switch f {
	case lostReply:
		return leaderelect.Entry{}, errNetwork
	case stallLate, cutAfter:
		if f == cutAfter {
			l.cut(l.party, d)
		}
		<-ctx.Done()
		return leaderelect.Entry{}, ctx.Err()
	case hangLate:
		<-healed
		return e, err
	case conflictAfter:
		if op != "get" {
			return leaderelect.Entry{}, leaderelect.ErrConflict
		}
	case slowReply:
		if err := wait.Sleep(ctx, d); err != nil {
			return leaderelect.Entry{}, err
		}
	case pauseAfter:
		l.pause(l.party, d)
	}
	l.resume(l.party)
	if err := wait.Sleep(ctx, latency/2); err != nil {
		return leaderelect.Entry{}, err
	}
	return e, err
}

// pause stops the process of party for d, as far as a call can: no call gets through, and no timer ends a leadership.
func (n *network) pause(party string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused[party] = time.Now().Add(d)
	if n.onPause != nil {
		n.onPause(party, d)
	}
}

// resume returns when the process of party is not suspended.
func (n *network) resume(party string) {
	n.mu.Lock()
	d, healed := time.Until(n.paused[party]), n.healed
	n.mu.Unlock()
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-healed:
	}
}

// meddle changes the record, if there is one, as an operator could. pick selects the change.
func (n *network) meddle(f fault, pick time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	forgets := f == deleteRecord || f == rollBack
	if n.entry == nil || forgets && n.mayForget != nil && !n.mayForget() {
		return
	}
	choice := int(pick / time.Millisecond)
	switch f {
	case foreignWrite:
		n.writeLocked(record{Holder: "foreigner", Incarnation: "foreign", Term: n.entry.Term + 1, Renewal: 1, LeaseMillis: 15_000})
	case deleteRecord:
		n.entry, n.forgot = nil, true
		n.wakeLocked()
	case rollBack:
		n.forgot = true
		older := *n.first
		if choice > 0 {
			older = n.committed[choice%len(n.committed)].entry
		}
		n.putLocked("backup", older)
	case raise:
		n.raiseLocked(choice)
	case scribble:
		e := *n.entry
		e.Value = scribbles[choice%len(scribbles)](e.Value)
		n.scribbled = true
		n.putLocked("tool", e)
	}
}

// raiseLocked restores the last record of a holder that has written before, without its session, and raises its term above that of the present
// record. choice selects the holder. A tombstone would be free, whatever its term. So would a record whose session has ended.
func (n *network) raiseLocked(choice int) {
	last := make(map[string]leaderelect.Entry)
	for _, c := range n.committed {
		if c.rec().Incarnation != "" && !c.releases() {
			last[c.rec().Incarnation] = c.entry
		}
	}
	if len(last) == 0 {
		return
	}
	holders := slices.Sorted(maps.Keys(last))
	e := last[holders[choice%len(holders)]]
	e.Term = n.entry.Term + 1
	e.Value = regexp.MustCompile(`,"session":"[^"]*"`).ReplaceAll(e.Value, nil)
	e.Value = regexp.MustCompile(`"term":\d+`).ReplaceAll(e.Value, fmt.Appendf(nil, `"term":%d`, e.Term))
	n.forgot = true
	n.putLocked("backup", e)
}

// scribbles are values that other tools may write: valid JSON that is not a record.
var scribbles = []func(value []byte) []byte{
	func([]byte) []byte { return []byte(`null`) },
	func([]byte) []byte { return []byte(`{}`) },
	func([]byte) []byte {
		return []byte(`{"holderIdentity":"pod-0","leaseDurationSeconds":15,"leaderTransitions":3}`)
	},
	func([]byte) []byte { return []byte(`{"holder":"pod-0","term":7}`) },
	func(value []byte) []byte { // by hand, with the best intentions
		return regexp.MustCompile(`"holder":"[^"]*"`).ReplaceAll(value, []byte(`"holder":""`))
	},
}

// write replaces the record unconditionally by rec, which is a tombstone if it has an incarnation and no holder.
func (n *network) write(rec record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writeLocked(rec)
}

func (n *network) writeLocked(rec record) {
	rec.Released = rec.Holder == "" && rec.Incarnation != ""
	value, _ := json.Marshal(rec)
	n.putLocked("foreigner", leaderelect.Entry{Key: key, Value: value, Term: rec.Term})
}

// read returns the current record.
func (n *network) read() record {
	var rec record
	if e, err := n.load(); err == nil {
		_ = json.Unmarshal(e.Value, &rec)
	}
	return rec
}

// on returns a plan: the n-th call of a kind that party makes has the fault, and no other.
func on(party, op string, n int, f fault, d time.Duration) func(call) (fault, time.Duration) {
	return func(c call) (fault, time.Duration) {
		if c.party == party && c.op == op {
			if n--; n == 0 {
				return f, d
			}
		}
		return none, 0
	}
}

// from returns a plan: the n-th call of a kind and all later ones have the fault.
func from(party, op string, n int, f fault) func(call) (fault, time.Duration) {
	return func(c call) (fault, time.Duration) {
		if c.party == party && c.op == op {
			if n--; n <= 0 {
				return f, 0
			}
		}
		return none, 0
	}
}
