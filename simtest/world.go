package simtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// ErrNotYet is the error of a [Step] that has to wait for the systems.
var ErrNotYet = errors.New("simtest: not yet")

// ErrLost is the error of a call whose request or reply was lost. The caller cannot know whether the call was executed.
var ErrLost = errors.New("simtest: the connection was lost, the outcome is unknown")

// World is a simulation: its systems, its steps, and its conditions.
type World struct {
	// Systems are the programs under test, and the programs that they work with. They act in this order.
	Systems []System

	// Steps are what the user does. Each step begins when nothing is left to do after the previous one.
	Steps []Step

	// Always is called after every commit, and after every effect ([Env.Effect]). An error is a failure. [View.Last] and [View.Before] say what has
	// changed.
	Always func(*View) error

	// Goal is called when nothing is left to do after the last step. An error is a failure. It is also called for plans in which the user leaves out
	// steps, to find a shorter one that fails in the same way: an object that a step creates may not exist then. Without a Goal, the state at the end
	// must equal that of the run without faults: the objects of every kind, without versions, UIDs, times, and the times and generations of
	// store.Conditions.
	//
	// If Always or Goal panics, calls t.FailNow, or does not return, the run fails. The same holds for New of a system and Do of a step.
	Goal func(*View) error

	// Same, if set, returns what of the value of an object is compared with that of the run without faults. It leaves out what may differ, such as a
	// generated name. The value is that of JSON: a map[string]any, []any, string, json.Number, bool, or nil; Same may change it and return it. Labels,
	// owners, and finalizers are always compared.
	Same func(kind, key string, value any) any

	// Mode is how the kit drives the systems: "step", the default, or "run". The flag -simtest.mode takes precedence.
	//
	// In step mode it steps informers and controllers in one goroutine: first every cache reads what it may, then the first
	// key that is ready is reconciled. In run mode, the real manager.Manager runs them, with the goroutines of informers and
	// workers. Each process has an elector if its system has a Lease, and stops in order at the end and at a restart. The kit still
	// decides what happens when: each reconcile and each call of the Env waits for its turn, and controllers are paused until it
	// is theirs. Run mode tests more, and takes about three times as long. A failure in one mode is one in the other, except for what
	// only run mode has: a part that ends by itself or does not stop, and several workers. In run mode, a world with Slots fails at once.
	Mode string

	// Horizon is how long, in simulated time, the run continues when nothing happens: no commit, step of the user, news in a cache, fault,
	// or end of a fault. Retries and other work that are due later do not count as left to do. A poll and a reconcile in flight do, for
	// three hours. Horizon should differ from every delay of the systems. Defaults to 7m3s.
	Horizon time.Duration

	// MaxReconciles is how many reconciles may follow a step or a fault before the system counts as one that never becomes quiet. The
	// same holds if no time passes for 100 times as many calls of the Env without a write, or for 10 times as many writes. If
	// a cache lags, or a process is down, that fault ends then, and 5 times as many reconciles may repair what was done. Defaults to 1000.
	MaxReconciles int

	// Pairs is how many pairs of faults are tried after all single ones. A negative number means none. Defaults to 200.
	Pairs int

	// Budget is how long plans of three to five faults are tried after that, in real time. Defaults to no time. The flag -simtest.budget
	// replaces it. It must be shorter than the flag -timeout of go test, which is 10 minutes by default.
	Budget time.Duration

	// Seed chooses the pairs and the random plans. The same seed chooses the same ones, in the same order.
	Seed uint64

	// Exhaustive also tries the plans that cannot differ from others: a crash before a write that is the same as one after the previous
	// write, and a lag that begins later although nothing has changed.
	Exhaustive bool
}

// System is one program in a [World].
type System struct {
	// Name is the unique name of the system in plans and timelines.
	Name string

	// New makes the system over env, and again for each process that replaces one that has ended. Nothing may survive from one call to the
	// next, except in stores and effects of env.
	New func(env *Env) ([]Part, error)

	// Trusted means that no fault hits the system: it is part of the environment.
	Trusted bool

	// Lease, if set, gives the system a leader: the writes of each process carry the term of the process (store.WithFence), and are refused
	// as soon as a later process has taken over, before that process reconciles. Only systems with Slots may have the same Lease.
	Lease string

	// Slots, if positive, is the number of slots in which the keys of the system are divided, as with manager.Config.Shards. The systems with the same
	// Lease and number of slots are the replicas of one program, which share the slots: see [Replicas]. Each slot has a leader, and terms of its
	// own, and so have the writes of a reconcile. Replicas that have lost a slot are refused as soon as another one has taken over, which does not
	// reconcile before its caches have what was written until then. The informers of controllers that are divided (informer.Divide) hold the objects of
	// the slots that the process owns. Zero means that each system has all keys. Only step mode simulates slots. At most 4096.
	Slots int
}

// Step is one action of the user.
type Step struct {
	Name string

	// Do acts through stores of the user (see [Open]). If it returns an error that wraps [ErrNotYet], it is called again when nothing else
	// is left to do and time has passed, until World.Horizon is over, and each key that has failed was tried once more after the last fault. Any other
	// error is a failure.
	Do func(ctx context.Context, user *User) error
}

// Stores is an argument of [Open]: an *[Env], a *[User], or a *[View].
type Stores interface {
	stores() *stores
}

// stores are the stores of one actor. Each is opened once, because Always may open its stores after every commit.
type stores struct {
	backend backend.Backend
	newUID  func() string
	decoded *decodedValues
	opened  sync.Map // by storeKey
}

type storeKey[T any] struct{ kind string }

// Open returns the store of a kind. Through an [Env], it is the store of one process, and faults hit it. Through a [User] or a [View], it
// is the real store, without faults; the store of a view only reads. Only an informer that the kit drives can watch: any other Watch ends
// with an error. Open panics if values of type T cannot be stored.
func Open[T any](s Stores, kind string) store.Store[T] {
	all, key := s.stores(), storeKey[T]{kind}
	if opened, ok := all.opened.Load(key); ok {
		return opened.(store.Store[T])
	}
	cfg := store.Config[T]{NewUID: all.newUID}
	cfg.Encode, cfg.Decode = codecOf[T](all.decoded)
	opened, err := store.Open[T](all.backend, kind, cfg)
	if err != nil {
		panic(fmt.Errorf("simtest: %w", err))
	}
	all.opened.Store(key, opened)
	return opened
}

// User is the actor of a [Step].
type User struct{ all stores }

func (u *User) stores() *stores { return &u.all }

// View reads the real state, without faults.
type View struct {
	all  stores
	run  *run
	last Change
}

func (v *View) stores() *stores { return &v.all }

// Change is a commit, or an effect.
type Change struct {
	By string // the process, such as "sites.1", or "user"
	Op string // "create", "update", or "delete", also if the object is only marked for deletion; or the name of an effect

	Kind, Key string // of the object; empty for an effect
}

// Last returns the change after which Always is called. For Goal, it is the last one of the run.
func (v *View) Last() Change { return v.last }

// Before returns a view of the state before [View.Last]. It is valid until Always returns.
func (v *View) Before() *View {
	at := v.run.db.version()
	if v.last.Kind != "" {
		at--
	}
	return v.run.viewAt(at)
}
