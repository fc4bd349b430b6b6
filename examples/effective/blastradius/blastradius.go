// Package blastradius is chapter 9 of "Effective controllers": docs/effective/09-blast-radius.md. A controller wipes the disks of racks
// that are taken down. The wrong one hands over an empty list, which means all machines. The right one does not, and it asks a person
// before it wipes many.
package blastradius

import "context"

// Rack is a rack that the user may take down.
type Rack struct {
	TakeDown bool
	MayWipe  int  // how many machines a person has agreed to wipe, if they are more than usual
	Done     bool `store:"status"`
}

// Machine is a machine in a rack.
type Machine struct {
	Rack  string
	Wiped bool `store:"status"`
}

// Wiper wipes the disks of machines. Without names, it wipes those of all machines.
type Wiper func(ctx context.Context, names ...string) error
