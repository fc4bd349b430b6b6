package leaderelect

import (
	"encoding/json"
	"maps"
	"time"
)

// record is the value of the entry: who leads. It is a tombstone if Released is set: the lease is free. Nothing is ever
// decided by its two times, which come from another machine's clock.
type record struct {
	Holder      string            `json:"holder"`             // identity, for people; "" in a tombstone
	Released    bool              `json:"released,omitzero"`  // the holder has given the lease up
	Incarnation string            `json:"incarnation"`        // of the elector that wrote it, also in a tombstone
	Term        uint64            `json:"term"`               // grows by 1 with every leadership
	Renewal     uint64            `json:"renewal"`            // number of the write; an incarnation uses none twice
	LeaseMillis int64             `json:"leaseMillis"`        // LeaseDuration of the holder
	AcquireTime time.Time         `json:"acquireTime"`        // informational
	RenewTime   time.Time         `json:"renewTime"`          // informational
	Metadata    map[string]string `json:"metadata,omitzero"`  // for anyone who reads the record
	Preferred   string            `json:"preferred,omitzero"` // in a tombstone: for whom others hold back; "" is nobody
	Mark        string            `json:"mark,omitzero"`      // held by the process of the holder when it wrote; "" is none
	Fenced      bool              `json:"fenced,omitzero"`    // the writer's Config.FencedWork
	Slots       int               `json:"slots,omitzero"`     // how many Slots have this key; 0 in the record of a lease
	Declines    []int             `json:"declines,omitzero"`  // in the record of a seat: slots that its holder could not acquire
}

// complete reports whether an elector can have written r: it names its writer, and either a holder or a release. JSON of
// other tools does neither, and a tombstone that somebody makes by emptying the holder does not say that it was released.
func (r record) complete() bool {
	return r.Incarnation != "" && r.Released == (r.Holder == "")
}

// maxLease bounds LeaseDuration, and what a record can say: no elector writes more.
const maxLease = 24 * time.Hour

// lease returns the LeaseDuration of the holder; 0 if the record does not say.
func (r record) lease() time.Duration {
	return time.Duration(min(max(r.LeaseMillis, 0), maxLease.Milliseconds())) * time.Millisecond
}

// leader returns what the record says to followers.
func (r record) leader() Leader {
	return Leader{Identity: r.Holder, Incarnation: r.Incarnation, Term: r.Term, Metadata: maps.Clone(r.Metadata)}
}

// millis returns d in milliseconds, rounded up: a lease in the record is never shorter than the one in the Config.
func millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// view is the record as it was read.
type view struct {
	exists   bool
	version  string
	readable bool // an elector has written it; if not, rec has only its Term
	rec      record
	floor    uint64    // Entry.Floor
	at       time.Time // after the reply, so not before the write of what was read
}

// viewOf decodes e.
func viewOf(e Entry, at time.Time) view {
	v := view{exists: true, version: e.Version, floor: e.Floor, at: at}
	v.readable = json.Unmarshal(e.Value, &v.rec) == nil && v.rec.complete()
	if !v.readable {
		v.rec = record{}
	}
	v.rec.Term = max(v.rec.Term, e.Term)
	return v
}

// held reports whether v shows a holder that can be named.
func (v view) held() bool {
	return v.exists && v.readable && v.rec.Holder != "" && v.rec.Slots == 0
}

// mark is the newest state of the record that an elector has seen, in a read or in a write of its own that was
// acknowledged.
type mark struct {
	term        uint64
	incarnation string
	renewal     uint64
	lease       time.Duration // of the last holder that said
}

// regressed reports whether v is older than the mark, or from another history.
func (m *mark) regressed(v view) bool {
	switch {
	case m.term == 0:
		return false
	case v.rec.Term < m.term: // also when there is no record
		return true
	case v.rec.Term > m.term:
		return false
	default:
		return v.rec.Incarnation != m.incarnation || v.rec.Renewal < m.renewal
	}
}

// raise moves the mark to r, unless r is older: a mark never goes back.
func (m *mark) raise(r record) {
	if lease := r.lease(); lease > 0 {
		m.lease = lease
	}
	if r.Term < m.term || r.Term == m.term && r.Renewal < m.renewal {
		return
	}
	m.term, m.incarnation, m.renewal = r.Term, r.Incarnation, r.Renewal
}
