package lease

import (
	"encoding/json"
	"time"
)

// Record is the value of an entry. It names the leader. If Released is set, it is a tombstone: the lease is free. Its two
// times come from the clock of another machine and decide nothing.
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
	Preferred   string            `json:"preferred,omitzero"` // in a tombstone: the elector that others wait for; "" is none
	Session     string            `json:"session,omitzero"`   // held by the process of the holder when it wrote; "" is none
	Fenced      bool              `json:"fenced,omitzero"`    // the writer's Config.Fenced
	Slots       int               `json:"slots,omitzero"`     // in the record of Slots: their number; 0 in the record of a lease
	Declines    []int             `json:"declines,omitzero"`  // in the record of a member: slots that it could not acquire
}

// complete reports whether an elector can have written r: it names its writer, and either a holder or a release. JSON written by other
// tools does neither. A record whose holder was emptied by hand does not declare a release.
func (r Record) complete() bool {
	return r.Incarnation != "" && r.Released == (r.Holder == "")
}

// MaxLease is the maximum of LeaseDuration. A longer one in a record counts as MaxLease, because no elector writes it.
const MaxLease = 24 * time.Hour

// Lease returns the LeaseDuration of the holder; 0 if the record does not say.
func (r Record) Lease() time.Duration {
	return time.Duration(min(max(r.LeaseMillis, 0), MaxLease.Milliseconds())) * time.Millisecond
}

// Millis returns d in milliseconds, rounded up. So a lease in a record is never shorter than the one in the Config.
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
	Readable bool // an elector has written it; otherwise Record has only its Term
	Record   Record
	Floor    uint64    // of the entry
	At       time.Time // after the reply, so never before the write of the record
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

// Held reports whether v has a holder.
func (v View) Held() bool {
	return v.Exists && v.Readable && v.Record.Holder != "" && v.Record.Slots == 0
}

// Observation is a record, and the time since when it has not changed.
type Observation struct {
	View
	Since time.Time // the first reply that showed this version
}
