package fencetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
	"github.com/setpoint-go/setpoint/store"
)

// User is the metadata in which a caller says who it is.
const User = "User"

// ErrCrashed is the error of a handler whose service has ended meanwhile. The caller gets no answer.
var ErrCrashed = errors.New("the service has ended")

// service is one of the services, over all its lives.
type service struct {
	m          *model
	name       string
	client     Client        // for calls that it passes on
	restarting chan struct{} // has a value during a restart

	// m.mu guards the following.

	life   int
	l      *Listener
	server Server
	floor  map[string]uint64   // the greatest term that it has served, or that has read, by lease
	raised time.Time           // when a floor was raised last
	inside map[store.Fence]int // work in progress
}

// Life is a service until it ends.
type Life struct {
	of *service
	n  int
}

func (m *model) newService(name string) *service {
	s := &service{m: m, name: name, restarting: make(chan struct{}, 1)}
	s.client = m.protocol.Client(Way{Fenced, m.dial, false})
	s.start()
	return s
}

// start begins a life of the service.
func (s *service) start() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.life++
	s.l, s.floor, s.inside = NewListener(), make(map[string]uint64), make(map[store.Fence]int)
	s.server = s.m.protocol.Server(&Life{s, s.life})
	if s.m.term > 0 {
		if err := s.server.Guard("shop").Raise(s.m.term); err != nil { // as the lease says
			panic(err)
		}
	}
	server, l := s.server, s.l
	s.m.wires.Go(func() { server.Serve(l) }) // ends with the life
}

// restart ends the service as a crash does, and starts it again.
func (s *service) restart() {
	s.restarting <- struct{}{}
	defer func() { <-s.restarting }()
	s.m.mu.Lock()
	s.life++ // what still runs changes nothing anymore
	for _, c := range s.m.calls {
		if c.to == s && c.ended.IsZero() {
			c.disturbed = true
		}
	}
	s.m.seen["restart"]++
	s.m.mu.Unlock()
	s.server.Close()
	s.start()
}

// AnyLease reports whether the server has no Lease function.
func (l *Life) AnyLease() bool { return l.of.m.anyLease }

// Lease is the Lease function, for a user.
func (l *Life) Lease(user string) string {
	if user == "mallory" {
		return ""
	}
	return "shop"
}

// Size returns the size of a response, in bytes.
func (l *Life) Size() int { return l.of.m.roll(10_000) }

// Serve is the handler. If err is [ErrCrashed], the caller gets no answer.
func (l *Life) Serve(ctx context.Context, r Request) (err error) {
	m := l.of.m
	m.mu.Lock()
	c := m.byID[r.ID]
	if c == nil {
		m.fault("%s serves an unknown call %q", l.of.name, r.ID)
		m.mu.Unlock()
		return nil
	}
	f := l.beginLocked(ctx, c, r)
	m.mu.Unlock()
	switch {
	case c.Kind.Streams():
		err = l.talk(ctx, c, r)
	case c.Kind == Read && c.lasts > 0:
		wait(ctx, c.lasts)
	case c.Kind == Write:
		_, cut := r.Receive()
		if cut != nil {
			c.Faultf("the handler gets a part of the body: guarantee 7: %v", cut)
		}
		time.Sleep(time.Duration(m.roll(200)) * time.Millisecond)
		if c.passOn {
			err = l.passOn(ctx, c)
		}
	}
	m.mu.Lock()
	alive := l.endLocked(c, f, err == nil)
	m.mu.Unlock()
	switch {
	case !alive:
		return ErrCrashed
	case err != nil:
		if c.wrapErrors && c.Kind.Streams() {
			return errors.New("a stream has ended: " + err.Error())
		}
		return fmt.Errorf("%s: %w", l.of.name, err)
	case c.Kind.Safe() || c.lease != "shop":
		return nil
	}
	_, err = store.CreateOrUpdate(ctx, m.texts, "log", func(o *store.Object[[]uint64]) error {
		o.Value = append(o.Value, f.Term)
		return nil
	})
	return err
}

func (l *Life) aliveLocked() bool { return l.of.life == l.n }

// beginLocked checks a call that has reached the handler, and returns its fence.
func (l *Life) beginLocked(ctx context.Context, c *Call, r Request) store.Fence {
	s, m := l.of, l.of.m
	f, fenced := store.FenceFrom(ctx)
	if fenced != (c.lease != "") || fenced && (f != store.Fence{Lease: c.lease, Term: c.term}) {
		m.fault("%s serves %s with the fence %v instead of %s %d: guarantees 3 and 9", s.name, c.ID, f, c.lease, c.term)
	}
	if fenced && (len(r.Lease) != 1 || r.Lease[0] != f.Lease || len(r.Term) != 1 || r.Term[0] != strconv.FormatUint(f.Term, 10)) {
		m.fault("%s gets %s with the metadata %q and %q: guarantee 3", s.name, c.ID, r.Lease, r.Term)
	}
	switch {
	case c.afterTerm:
		m.fault("%s serves %s, which was sent after its leadership: guarantee 1", s.name, c.ID)
	case c.unsent:
		m.fault("%s serves %s, which has no leadership: guarantee 4", s.name, c.ID)
	case c.expect != 0:
		m.fault("%s serves %s, which it has to refuse: guarantee 10", s.name, c.ID)
	}
	if !l.aliveLocked() || !fenced {
		return f
	}
	if f.Term < s.floor[f.Lease] && (!c.Kind.Safe() || time.Since(s.raised) > 0) { // a read begins at the same time as its successor's call
		m.fault("%s serves %s of term %d after term %d: guarantees 5 and 8", s.name, c.ID, f.Term, s.floor[f.Lease])
	}
	if f.Term > s.floor[f.Lease] {
		s.floor[f.Lease], s.raised = f.Term, time.Now()
		if c.Kind.Safe() {
			m.seen["barred by read"]++
		}
	}
	for other := range s.inside {
		switch {
		case other.Lease != f.Lease || other.Term == f.Term || c.Kind.Safe() && other.Term > f.Term:
		default:
			m.fault("%s serves %s of term %d while term %d works: guarantees 6 and 8", s.name, c.ID, f.Term, other.Term)
		}
	}
	if !c.Kind.Safe() {
		s.inside[f]++
	}
	return f
}

// endLocked notes the end of a call in the handler, and reports whether the service still lives.
func (l *Life) endLocked(c *Call, f store.Fence, success bool) (alive bool) {
	if !l.aliveLocked() {
		return false
	}
	if success {
		c.done++
	}
	if c.Kind.Safe() && f.Lease != "" && f.Term < l.of.floor[f.Lease] {
		l.of.m.seen["read while successor works"]++
	}
	if !c.Kind.Safe() && f.Lease != "" {
		if l.of.inside[f]--; l.of.inside[f] == 0 {
			delete(l.of.inside, f)
		}
	}
	return true
}

// The ways in which a stream is answered. The fourth is to receive only.
const (
	echoes = iota // each message
	sends         // much, before it receives
	works         // before it receives
)

// talk answers a stream.
func (l *Life) talk(ctx context.Context, c *Call, r Request) (err error) {
	m := l.of.m
	defer func() {
		if ctx.Err() != nil {
			if late := r.Send(Late); late == nil {
				c.Faultf("SendMsg succeeds after the end of its context: guarantee 7")
			}
		}
		if err != nil {
			time.Sleep(time.Duration(m.roll(200)) * time.Millisecond) // a handler needs time for its end
		}
	}()
	send := func(size int) error { return inTime(ctx, c, "SendMsg", func() error { return r.Send(size) }) }
	if c.answer == sends {
		for range 10 {
			if err := send(20_000); err != nil {
				return err
			}
		}
	}
	if c.answer == works {
		wait(ctx, time.Duration(m.roll(1000))*time.Millisecond)
	}
	for {
		var more bool
		err := inTime(ctx, c, "RecvMsg", func() (err error) { more, err = r.Receive(); return err })
		if err != nil || !more {
			return err
		}
		m.mu.Lock()
		c.received++
		m.mu.Unlock()
		if c.answer == echoes {
			if err := send(10); err != nil {
				return err
			}
		}
	}
}

// inTime checks that a call of a stream returns an error if the context has ended before, and that it returns when the context ends.
func inTime(ctx context.Context, c *Call, what string, f func() error) error {
	before := ctx.Err()
	var ended time.Time // m.mu guards it
	stop := context.AfterFunc(ctx, func() {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		ended = time.Now()
	})
	err := f()
	stop()
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if before != nil && err == nil {
		c.m.fault("%s: %s succeeds after the end of its context: guarantee 7", c.ID, what)
	}
	if !ended.IsZero() && time.Since(ended) > 0 {
		c.m.fault("%s: %s returns %v after the end of its context: guarantee 7", c.ID, what, time.Since(ended))
	}
	if stale := new(fence.StaleError); errors.As(context.Cause(ctx), &stale) {
		c.m.seen["stream ended for successor"]++
	}
	return err
}

// passOn makes a call of the other service, under the context of the handler.
func (l *Life) passOn(ctx context.Context, c *Call) error {
	m := l.of.m
	m.mu.Lock()
	next := &Call{
		ID: c.ID + "-" + strconv.Itoa(len(m.calls)), Kind: Write, Service: "green", m: m, to: m.serviceLocked("green"), lease: c.lease, term: c.term,
		cancels: true, disturbed: true, begun: time.Now(),
	}
	m.addLocked(next)
	m.seen["passed on"]++
	m.mu.Unlock()
	out := l.of.client.Call(ctx, next)
	next.end(out)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.refusedNext = out.Reason == claim.Stale
	if out.Err != nil && next.to.life > 1 {
		c.lost, c.disturbed = true, true
	}
	return out.Err
}
