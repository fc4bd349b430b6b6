package interceptor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Plan holds the rules and the calls of one or more interceptors. [NewWithPlan] makes several interceptors share one, so that a rule counts
// the calls of all their kinds, in the order in which they begin. The zero value is ready for use. Its methods are safe for concurrent use.
type Plan struct {
	mu sync.Mutex

	// mu guards the following.

	rules   []*Injection
	calls   []*Call
	watches map[*Call]context.CancelCauseFunc // the open ones
}

// Call is a call of a [Store].
type Call struct {
	Kind   string // of the store
	Caller string // the name given to [Store.As]; empty if there is none
	Op     string // as in [store.Error]; "event" only in Rule.When
	Key    string // empty for a list or a watch

	// Done is false while the call is in flight, or hangs.
	Done bool

	// Err is the error that the caller got. With [LoseReply], the result in the store was another one.
	Err error

	// Hit reports that a rule hit the call.
	Hit bool

	// Args are the arguments, or the event that is about to be delivered. They are set only in Rule.When.
	Args Args
}

// Args are the arguments of a [Call]. Those that it does not have are zero.
type Args struct {
	Object   any                  // the store.Object of a Create, Update, UpdateStatus, or event
	Pre      []store.Precondition // of a write
	Fence    store.Fence          // that the context carries, except of a watch or an event; see store.FenceFrom
	Selector store.Selector       // of a list or watch
	After    informer.Version     // of a watch
	Type     informer.EventType   // of an event
}

// Inject activates a rule. Each rule counts all calls that it matches, even those that another rule hits. If several rules would hit a
// call, the one that was injected first does. A rule that can never hit panics: an unknown operation, a key for a list, no fault.
func (p *Plan) Inject(r Rule) *Injection {
	in := newInjection(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, in)
	return in
}

// Reset removes all rules.
func (p *Plan) Reset() {
	p.mu.Lock()
	rules := p.rules
	p.rules = nil
	p.mu.Unlock()
	for _, in := range rules {
		in.Remove()
	}
}

// Calls returns a copy of all calls since the last ForgetCalls, in the order in which they began.
func (p *Plan) Calls() []Call { return p.callsOf(func(string) bool { return true }) }

// Writes returns the Create, Update, UpdateStatus, and Delete calls among Calls, including those that failed. If it is empty, no caller
// tried to write.
func (p *Plan) Writes() []Call {
	return p.callsOf(func(op string) bool {
		return op == opCreate || op == opUpdate || op == opUpdateStatus || op == opDelete
	})
}

// ForgetCalls empties Calls and Writes. Rules keep their counts.
func (p *Plan) ForgetCalls() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

func (p *Plan) callsOf(wanted func(op string) bool) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Call
	for _, c := range p.calls {
		if wanted(c.Op) {
			all = append(all, *c)
		}
	}
	return all
}

// begin records a call, and returns the rule that hits it, or nil. cancel is that of a watch.
func (p *Plan) begin(c Call, args Args, cancel context.CancelCauseFunc) (*Call, *Injection) {
	noted := new(Call)
	*noted = c
	p.mu.Lock()
	p.calls = append(p.calls, noted)
	if cancel != nil {
		if p.watches == nil {
			p.watches = make(map[*Call]context.CancelCauseFunc)
		}
		p.watches[noted] = cancel
	}
	p.mu.Unlock()
	asked := c
	asked.Args = args
	return noted, p.match(asked)
}

// match returns the rule that hits a call or an event, or nil. It calls the When of rules, without the lock.
func (p *Plan) match(c Call) (first *Injection) {
	p.mu.Lock()
	p.rules = slices.DeleteFunc(p.rules, func(in *Injection) bool { return in.removed.Err() != nil })
	rules := slices.Clone(p.rules)
	p.mu.Unlock()
	for _, in := range rules {
		if in.matches(c) && first == nil {
			first = in
		}
	}
	return first
}

func (p *Plan) hit(in *Injection, c *Call) {
	in.hits.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Hit = true
}

func (p *Plan) end(c *Call, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Done, c.Err = true, err
	delete(p.watches, c)
}

// Injection is an active rule. Its methods are safe for concurrent use.
type Injection struct {
	rule    Rule
	removed context.Context // ends with Remove
	remove  context.CancelFunc
	calls   atomic.Int64 // that the rule has matched
	hits    atomic.Int64
}

func newInjection(r Rule) *Injection {
	in := &Injection{rule: r.withDefaults()}
	in.removed, in.remove = context.WithCancel(context.Background())
	return in
}

// Remove ends the rule: it hits no more calls, and calls that hang because of it continue. It still decides about an event that [Skip] or
// [IllegalReorder] already holds back. A second Remove does nothing.
func (in *Injection) Remove() { in.remove() }

// Hits returns how many calls or events the rule has hit. A test that relies on a fault should assert that it occurred.
func (in *Injection) Hits() int { return int(in.hits.Load()) }

// matches counts a call if the rule matches it, and reports whether the rule hits it.
func (in *Injection) matches(c Call) bool {
	r := in.rule
	switch {
	case r.Op != c.Op && (r.Op != "" || c.Op == opEvent),
		r.Kind != "" && r.Kind != c.Kind,
		r.Caller != "" && r.Caller != c.Caller,
		r.Key != "" && r.Key != c.Key,
		r.When != nil && !r.When(c):
		return false
	}
	n := int(in.calls.Add(1))
	return n >= r.Nth && (r.Times < 0 || n < r.Nth+r.Times)
}
