package controller

import (
	"context"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
)

// maxUnmapped is the number of events of a channel that are read before they could be mapped.
const maxUnmapped = 1024

// WatchChannel makes c reconcile the keys to which mapper maps what comes from a channel: a webhook, a queue of messages,
// whatever is no informer. The name stands in logs and reasons. An event that could not be mapped, because mapper returned
// an error or panicked, is mapped again after a backoff that grows from 5 ms to a minute, until it succeeds. When 1024
// events wait for that, no more are read.
//
// The channel is read while Run runs, and in no other time: then senders wait, unless it has a buffer. What was read is
// not lost when a Run ends. A channel that is closed says nothing any more. WatchChannel panics while Run is under way.
func WatchChannel[K comparable, E any](
	c *Controller[K], name string, events <-chan E, mapper func(ctx context.Context, e E) ([]K, error),
) {
	if c == nil {
		panic("controller: WatchChannel called with a nil controller")
	}
	if events == nil || mapper == nil {
		panic("controller: WatchChannel called with a nil channel or mapper")
	}
	f := &channelFeed[K, E]{name: name, events: events, slots: make(chan struct{}, maxUnmapped)}
	f.mapping = newMapping(c, name, func(ctx context.Context, _ uint64, e E) ([]K, error) { return mapper(ctx, e) })
	f.mapping.mapped = func() { <-f.slots }
	c.addFeed(f)
}

// channelFeed is a channel that is read. To its mapping each event is an object of its own, whose key is its number.
type channelFeed[K comparable, E any] struct {
	name    string
	events  <-chan E
	mapping *mapping[K, uint64, E]
	slots   chan struct{} // holds a token for each event that was read and not mapped; nobody closes it
	read    uint64        // events so far; used by the reader only
	reading sync.WaitGroup
}

func (f *channelFeed[K, E]) Name() string { return f.name }

func (f *channelFeed[K, E]) start(ctx context.Context) (informer.Syncer, error) {
	f.mapping.start(ctx)
	// Waits for events. It ends with ctx, or when the channel is closed; stop waits for it.
	f.reading.Go(func() {
		for f.next(ctx) {
		}
	})
	return nil, nil
}

func (f *channelFeed[K, E]) stop() {
	f.reading.Wait()
	f.mapping.wait()
}

func (f *channelFeed[K, E]) cache() Cache { return nil }

func (f *channelFeed[K, E]) unmapped() int { return f.mapping.unmapped() }

// next reads one event. It returns false when there will be none in this Run.
func (f *channelFeed[K, E]) next(ctx context.Context) bool {
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	select {
	case e, ok := <-f.events:
		if !ok {
			<-f.slots
			return false
		}
		f.read++
		if f.mapping.told(f.read, event[E]{change: Change[E]{Type: informer.Added, New: e}, what: " told"}) {
			<-f.slots
		}
		return ctx.Err() == nil
	case <-ctx.Done():
		<-f.slots
		return false
	}
}
