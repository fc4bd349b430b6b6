package sim

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/part"
)

// ErrNotYet is the error of a [Step] that must wait for the systems.
var ErrNotYet = errors.New("simtest: not yet")

// ErrLost is the error of a call whose request or reply was lost. The caller cannot know whether the call was executed.
var ErrLost = errors.New("simtest: the connection was lost, the outcome is unknown")

// errRead is the error of a read that a fault hits.
var errRead = errors.New("simtest: the read failed")

// World is simtest.World, with the fields that one run needs. All steps get the same handle, and so do all calls of Always and Goal.
type World struct {
	Systems       []System
	Steps         []Step
	Always, Goal  func(*database.Handle) error
	Same          func(kind, key, text string) string
	Horizon       time.Duration // defaults to 7m3s
	MaxReconciles int           // defaults to 1000
}

// System is one program.
type System struct {
	Name    string
	New     func(*Process) ([]part.Part, error)
	Trusted bool   // no fault hits it
	Lease   string // if set, each process has a leadership
}

// Step is one action of the user.
type Step struct {
	Name string
	Do   func(context.Context, *database.Handle) error
}

// Position is a place at which a fault can happen: the nth operation on an object by a system.
type Position struct {
	System, Op, Object string
	Nth                int
	Write              bool             // a write or an effect, not a read
	Before             informer.Version // of the database
	Step               int              // how many steps of the user have begun
	Turn               int              // the number of the reconcile; 0 in run mode, which does not number them
	Idle               int              // how many times nothing was left to do before
	When               time.Duration
}

// call is the key by which the operations of a system are counted.
type call struct{ op, object string }
