package lease

import (
	"encoding/json"
	"time"
)

// Record is the value of an entry: who leads. It is a tombstone if Released is set: the lease is free. Nothing is ever
// decided by its two times, which come from the clock of another machine.
type Record struct {
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
	Session     string            `json:"session,omitzero"`   // held by the process of the holder when it wrote; "" is none
	Fenced      bool              `json:"fenced,omitzero"`    // the writer's Config.Fenced
	Slots       int               `json:"slots,omitzero"`     // how many Slots have this key; 0 in the record of a lease
	Declines    []int             `json:"declines,omitzero"`  // in the record of a seat: slots that its holder could not acquire
}

// complete reports whether an elector can have written r: it names its writer, and either a holder or a release. JSON of
// other tools does neither, and a tombstone that somebody makes by emptying the holder does not say that it was released.
func (r Record) complete() bool {
	return r.Incarnation != "" && r.Released == (r.Holder == "")
}

// MaxLease bounds LeaseDuration, and what a record can say: no elector writes more.
const MaxLease = 24 * time.Hour

// Lease returns the LeaseDuration of the holder; 0 if the record does not say.
func (r Record) Lease() time.Duration {
	return time.Duration(min(max(r.LeaseMillis, 0), MaxLease.Milliseconds())) * time.Millisecond
}

// Millis returns d in milliseconds, rounded up: a lease in the record is never shorter than the one in the Config.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// View is a record as it was read.
type View struct {
	Exists   bool
	Version  string
	Readable bool // an elector has written it; if not, Record has only its Term
	Record   Record
	Floor    uint64    // of the entry
	At       time.Time // after the reply, so not before the write of what was read
}

// ViewOf decodes the value of an entry that has the given version, term and floor.
func ViewOf(value []byte, version string, term, floor uint64, at time.Time) View {
	v := View{Exists: true, Version: version, Floor: floor, At: at}
	v.Readable = json.Unmarshal(value, &v.Record) == nil && v.Record.complete()
	if !v.Readable {
		v.Record = Record{}
	}
	v.Record.Term = max(v.Record.Term, term)
	return v
}

// Held reports whether v shows a holder that can be named.
func (v View) Held() bool {
	return v.Exists && v.Readable && v.Record.Holder != "" && v.Record.Slots == 0
}

// Observation is a record, and since when it has been so.
type Observation struct {
	View
	Since time.Time // the first reply that showed this version
}
