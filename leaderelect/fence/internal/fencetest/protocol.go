package fencetest

import (
	"context"
	"net"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// Protocol is how the calls of a schedule are made and served.
type Protocol struct {
	Kinds  []Kind // of the calls that it can make
	Client func(w Way) Client
	Server func(l *Life) Server
}

// Kind is what a call does.
type Kind int

// The kinds of calls.
const (
	Read   Kind = iota // of one message each way, and safe
	Write              // the same, and not safe
	Watch              // a stream that is safe
	Stream             // a stream that is not
)

// Safe reports whether calls of the kind only read.
func (k Kind) Safe() bool { return k == Read || k == Watch }

// Streams reports whether calls of the kind are streams.
func (k Kind) Streams() bool { return k == Watch || k == Stream }

// Mode is how much of a client fences.
type Mode int

// The modes of clients.
const (
	Fenced   Mode = iota // the client of a leader
	Unfenced             // the same, with Unfenced set
	Plain                // none: the metadata is that of [Call.Claim]
)

// Way is what a client needs of a process.
type Way struct {
	Mode Mode
	Dial func(ctx context.Context, service string) (net.Conn, error)
	Once bool // each call has a connection of its own, if the protocol can do that
}

// Client makes calls.
type Client interface {
	// Call makes a call, and returns when it has ended.
	Call(ctx context.Context, c *Call) Outcome
	Close()
}

// Server is one life of a service.
type Server interface {
	Guard(lease string) *fence.Guard
	Serve(l *Listener) // until Close
	Close()            // as a crash: it waits for no call
}

// Late is the size of messages that a handler sends after its context has ended. They may not reach the client.
const Late = 13

// Outcome is how a call has ended. The zero value is success.
type Outcome struct {
	Reason claim.Reason // why the server has refused the call, or 0
	Err    error        // what the caller gets, also for a call that was refused
	Own    bool         // Err says that the context of the call has ended
}

// Request is a call that has reached a handler.
type Request struct {
	ID          string
	Lease, Term []string // the metadata

	// Receive receives a message of a stream, or the whole body. more says whether another one may follow.
	Receive func() (more bool, err error)

	// Send sends a message of a stream.
	Send func(size int) error
}

// Call is a call of a process. The exported fields do not change.
type Call struct {
	ID      string
	Kind    Kind
	Service string

	// Claim is metadata that the client adds before anything else: pairs of names and values. The name of a header is the same in lower case
	// and in gRPC's metadata.
	Claim []string

	m           *model
	by          *process // nil if a service makes the call
	to          *service
	lease       string // of the claim that the handler should see
	term        uint64
	expect      claim.Reason // why the server refuses it, whatever else happens
	unsent      bool         // it has no leadership, so it is not sent
	afterTerm   bool         // its leadership was over before, and the process could have noticed
	passOn      bool         // to the other service
	lasts       time.Duration
	answer      int  // how a stream is answered
	wrapErrors  bool // the handler returns errors of its own
	pieces      int
	begun       time.Time
	longMessage bool

	// m.mu guards the following.

	cancels       bool // its caller cancels it
	disturbed     bool // suspended, deposed, cut off, canceled
	refusedNext   bool // the other service has refused it
	lost          bool // it was passed on to a service that has ended meanwhile
	ended         time.Time
	out           Outcome
	deposed       time.Time // when the process noticed that the leadership is over, if during the call
	suspendedOnce bool
	sent          int // messages, without an error
	received      int // the same, by the handler
	done          int // how often the handler has done it
}

// Next waits until the process has the next piece of the body, or the next message, and returns its size, or false after the last one.
func (c *Call) Next() (size int, ok bool) {
	time.Sleep(time.Duration(c.m.roll(30)) * time.Millisecond)
	if c.by.gate() {
		c.m.note("suspended in body")
	}
	if c.pieces == 0 {
		return 0, false
	}
	c.pieces--
	size = 1 + c.m.roll(3000)
	if c.longMessage {
		size *= 20
	}
	return size, true
}

// Hold keeps a stream open, for some time or until ctx ends.
func (c *Call) Hold(ctx context.Context) {
	if c.lasts > 0 {
		wait(ctx, c.lasts)
	}
	c.by.gate()
}

// Over reports whether the process has noticed that the leadership of the call is over. If it has, the clock
// of the leadership, read after Over, says so too.
func (c *Call) Over() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return !c.deposed.IsZero()
}

// GiveUp notes that the caller ends the call.
func (c *Call) GiveUp() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.cancels, c.disturbed = true, true
	c.m.seen["given up"]++
}

// Claimed reports whether the call carries the claim of a leadership.
func (c *Call) Claimed() bool { return c.by != nil && c.lease == "shop" }

// Sent counts a message of a stream that was sent without an error.
func (c *Call) Sent() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.sent++
}

// Faultf notes a violation.
func (c *Call) Faultf(format string, args ...any) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.fault(c.ID+": "+format, args...)
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
