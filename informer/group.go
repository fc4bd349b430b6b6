package informer

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// Group holds the informers of a program, one for each source, so that everybody who needs a source shares one cache and
// one watch of it. It is what client-go calls a SharedInformerFactory. [For] gives the informer of a source; [Group.Run]
// starts, and ends, them all.
//
// It is a [Syncer], and a source of a controller.Manager. Its methods may be called by several goroutines at once.
type Group struct {
	name   string
	synced chan struct{} // closed by Run, with mu held

	mu sync.Mutex
	// mu guards the following.
	begun   bool
	ended   bool
	members []member       // in the order in which they were asked for
	sources map[any]member // the same by source
	start   func(member)   // starts a member; nil before Run
}

// GroupConfig holds what a [Group] may be told. Its zero value is ready for use.
type GroupConfig struct {
	// Name names the group in errors. Defaults to "informers".
	Name string

	_ [0]func() // not comparable, so that a field of any type can be added
}

// member is an informer, whatever its types are.
type member interface {
	Syncer
	Run(ctx context.Context) error
}

// NewGroup returns a group of no informers. Its error is nil: every GroupConfig is valid.
func NewGroup(cfg GroupConfig) (*Group, error) {
	return &Group{
		name:    cmp.Or(cfg.Name, "informers"),
		synced:  make(chan struct{}),
		sources: make(map[any]member),
	}, nil
}

// For returns the informer of src in g: the one that is there, or a new one, which starts at once if Run of g is under
// way. key and cfg are those of the informer if it is new, and are not looked at otherwise. Who asks first decides: let
// all of a program ask through one function.
//
// Sources are the same when they are equal, as pointers to one source are. So keep what [Poll], [Filter], [Map] or
// [WithEqual] returned, and give that to everybody. For panics when src cannot be compared, or when its informer in g has keys of
// another type than K. It returns [ErrEnded] when src is new and Run of g has ended.
//
// The informer is run by g, so nobody else may run it. For may be called from a callback of a handler.
func For[K comparable, T any](g *Group, src ListWatcher[T], key cache.KeyFunc[K, T], cfg Config) (*Informer[K, T], error) {
	if src != nil && !reflect.ValueOf(src).Comparable() {
		panic(fmt.Sprintf("informer: For needs a source that can be compared, such as a pointer, not a %T", src))
	}
	in, err := New(src, key, cfg) // nothing is lost if it is not needed: it does nothing before it runs
	if err != nil {
		return nil, err
	}
	m, ok := g.join(src, in)
	if !ok {
		return nil, fmt.Errorf("informer: add %s to group %s: %w", in.Name(), g.name, ErrEnded)
	}
	shared, ok := m.(*Informer[K, T])
	if !ok {
		panic(fmt.Sprintf("informer: For asks for a %T, but the source has a %T in group %s", in, m, g.name))
	}
	return shared, nil
}

// Name returns the name from the GroupConfig.
func (g *Group) Name() string { return g.name }

// Run runs every informer of the group, those that join later too, until ctx ends, and returns nil when all of them have
// ended, and with them all that they have started.
//
// An informer ends before only by a mistake: somebody else has run it too, or its OnError has panicked. Then the others
// end too, since a program must not go on with a cache that stands still. Run returns what went wrong, with the names of
// the informers, joined in the order in which they were asked for.
//
// A second Run returns an error at once: [ErrRunning] while the first goes on, [ErrEnded] after it.
func (g *Group) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running wait.Group
	start := func(m member) {
		// The informer blocks whoever runs it. It ends with ctx; running.Wait waits for it.
		running.Start(ctx, func(ctx context.Context) error {
			defer stop()
			if err := wait.Call(ctx, m.Run); err != nil {
				return fmt.Errorf("informer: group %s: %s: %w", g.name, m.Name(), err)
			}
			return nil
		})
	}
	if err := g.begin(start); err != nil {
		return fmt.Errorf("informer: run group %s: %w", g.name, err)
	}
	g.awaitSync(ctx)
	<-ctx.Done()
	g.end() // nothing is started any more
	return running.Wait()
}

// Synced returns a channel that is closed when, for the first time since Run has begun, every informer of the group holds
// its first list. Those that join after that do not open it again: [Group.WaitForSync] waits for them too. It is never
// closed if Run ends before.
func (g *Group) Synced() <-chan struct{} { return g.synced }

// HasSynced reports whether Synced is closed.
func (g *Group) HasSynced() bool { return isClosed(g.synced) }

// WaitForSync waits until every informer that is in the group now holds its first list, or ctx ends. Its error names those
// that do not, and wraps [context.Cause] of ctx.
func (g *Group) WaitForSync(ctx context.Context) error {
	return WaitForSync(ctx, g.Syncers()...)
}

// Syncers returns the informers that are in the group now, in the order in which they were asked for.
func (g *Group) Syncers() []Syncer {
	g.mu.Lock()
	defer g.mu.Unlock()
	syncers := make([]Syncer, len(g.members))
	for i, m := range g.members {
		syncers[i] = m
	}
	return syncers
}

// join returns the informer of src, which becomes m if there is none. It returns false if it is too late for that.
func (g *Group) join(src any, m member) (member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if there, ok := g.sources[src]; ok {
		return there, true
	}
	if g.ended {
		return nil, false
	}
	g.sources[src] = m
	g.members = append(g.members, m)
	if g.start != nil {
		g.start(m)
	}
	return m, true
}

// begin lets one Run through, and starts all members.
func (g *Group) begin(start func(member)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended:
		return ErrEnded
	case g.begun:
		return ErrRunning
	}
	g.begun, g.start = true, start
	for _, m := range g.members {
		start(m)
	}
	return nil
}

// end lets nobody start any more.
func (g *Group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended, g.start = true, nil
}

// awaitSync closes synced when all members have synced, unless ctx ends before.
func (g *Group) awaitSync(ctx context.Context) {
	var members []Syncer
	for WaitForSync(ctx, members...) == nil && !g.closeSynced(len(members)) {
		members = g.Syncers()
	}
}

// closeSynced closes synced, unless more than the first n members are there.
func (g *Group) closeSynced(n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n < len(g.members) {
		return false
	}
	close(g.synced)
	return true
}
