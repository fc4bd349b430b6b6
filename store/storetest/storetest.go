package storetest

import (
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store"
)

// Patience is how long the suite waits for an event before it says that it is lost.
const Patience = 30 * time.Second

// Database is an empty database of the backend under test.
type Database struct {
	// Open returns the store of one kind of objects in the database. The suite opens up to three kinds, each once.
	Open func(kind string) store.Store[Thing]

	// History is a number of changes of one kind after which a watch from before the first of them has to expire. Zero
	// means that the backend makes no such promise: the cases about it are skipped. Keep it small, but at least 40: the
	// suite has to write so many changes.
	History int

	_ [0]func()
}

// Thing is the value of the objects that the suite stores: it has one of everything that plain data is made of.
type Thing struct {
	Name   string            `json:",omitempty"`
	Size   int               `json:",omitempty"`
	Tags   []string          `json:",omitempty"`
	Labels map[string]string `json:",omitempty"`
	Main   *Part             `json:",omitempty"`
	Parts  []Part            `json:",omitempty"`
	Seen   time.Time         `json:",omitzero"`
	Status Status            `json:",omitzero"` // see [store.Statused]
}

// Status is the status of a [Thing].
type Status struct {
	Phase string   `json:",omitempty"`
	Notes []string `json:",omitempty"`
}

// WithStatusOf implements [store.Statused].
func (t Thing) WithStatusOf(other Thing) Thing {
	t.Status = other.Status
	return t
}

// Part is a part of a [Thing].
type Part struct {
	Name  string `json:",omitempty"`
	Ports []int  `json:",omitempty"`
}

// Run runs every case as a subtest of t, each with a database that open makes for it.
func Run(t *testing.T, open func(t *testing.T) Database) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// testCase is one sentence of the contract.
type testCase struct {
	name string
	run  func(t testing.TB, db Database)
}

func cases() []testCase {
	var all []testCase
	for _, part := range [][]testCase{
		objectCases, preconditionCases, raceCases, finalizerCases, watchCases, expiryCases, isolationCases, modelCases,
		statusCases, selectCases, requestCases,
	} {
		all = append(all, part...)
	}
	return all
}
