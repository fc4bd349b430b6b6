package crew

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Crew is a set of workers. T is the state of each worker. All methods are safe for concurrent use, and only Wait blocks.
type Crew[T any] struct {
	ctx     context.Context
	work    func(*Seat[T])
	running sync.WaitGroup

	mu sync.Mutex
	// mu guards the following. Invariant: each seat has its index in seats as its place.
	want   int
	closed bool
	seats  []*Seat[T] // of the workers that run
}

// Seat is the place of one worker.
type Seat[T any] struct {
	State T // written only by the worker

	crew      *Crew[T]
	place     int             // guarded by Crew.mu
	take      context.Context // written by the worker, with Crew.mu held
	interrupt context.CancelFunc
	goroutine atomic.Int64 // the number of the worker's
}

// New returns a crew without workers. Each worker calls work, which returns when [Seat.Stay] returns false. All workers must end when ctx
// does.
func New[T any](ctx context.Context, work func(*Seat[T])) *Crew[T] {
	return &Crew[T]{ctx: ctx, work: work}
}

// Resize sets the number of workers to n. Excess workers end after their current work.
func (c *Crew[T]) Resize(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resizeLocked(n)
}

func (c *Crew[T]) resizeLocked(n int) {
	if c.closed {
		return
	}
	c.want = n
	for len(c.seats) < n && c.ctx.Err() == nil {
		s := &Seat[T]{crew: c, place: len(c.seats)}
		s.take, s.interrupt = context.WithCancel(c.ctx)
		c.seats = append(c.seats, s)
		c.start(s)
	}
	if len(c.seats) > n {
		for _, s := range c.seats {
			s.interrupt()
		}
	}
}

// Close makes all workers end after their current work. No new worker starts.
func (c *Crew[T]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resizeLocked(0)
	c.closed = true
}

// Wait waits until all workers have ended. It is called after Close.
func (c *Crew[T]) Wait() { c.running.Wait() }

// Seats returns the seats of the workers that run.
func (c *Crew[T]) Seats() []*Seat[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seats)
}

// start starts the worker of s. It is called before Close, or by a running worker, so it never races with Wait.
func (c *Crew[T]) start(s *Seat[T]) {
	// A worker ends when Stay returns false, and Wait waits for it.
	c.running.Go(func() {
		s.goroutine.Store(goroutineID())
		returned := false
		defer func() {
			if !returned { // a Goexit cannot be stopped, so another worker takes the seat
				c.start(s)
			}
		}()
		c.work(s)
		returned = true
	})
}

// Take returns a context for the wait for the next piece of work. It ends when the worker must call Stay.
func (s *Seat[T]) Take() context.Context { return s.take }

// Stay reports whether the worker of s should continue. Only the worker calls it. If it returns false, the seat is gone.
func (s *Seat[T]) Stay() bool {
	if s.take.Err() == nil { // the most common case; no lock is needed, because only the worker changes take
		return true
	}
	c := s.crew
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() == nil && len(c.seats) <= c.want {
		s.take, s.interrupt = context.WithCancel(c.ctx)
		return true
	}
	last := c.seats[len(c.seats)-1]
	c.seats[s.place], last.place = last, s.place
	c.seats[len(c.seats)-1] = nil
	c.seats = c.seats[:len(c.seats)-1]
	return false
}

// Stack returns the stack of the worker, or nil if it has ended. It dumps all goroutines of the process. Profiler labels would also
// identify the worker, but not if the work sets its own labels.
func (s *Seat[T]) Stack() []byte {
	const most = 64 << 20
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < most {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	head := fmt.Appendf(nil, "goroutine %d ", s.goroutine.Load())
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(stack, head) {
			return bytes.Clone(stack)
		}
	}
	return nil
}

// goroutineID returns the number of the goroutine that calls it. The runtime reveals it only in the stack of the goroutine.
func goroutineID() int64 {
	var buf [64]byte
	stack := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	id, _, _ := bytes.Cut(stack, []byte(" "))
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return 0 // no goroutine has this number
	}
	return n
}

// CheckInvariants returns an error if an invariant at the fields does not hold. It is for tests.
func (c *Crew[T]) CheckInvariants() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.seats {
		if s.place != i {
			return fmt.Errorf("crew: seat %d says that it is %d", i, s.place)
		}
	}
	return nil
}
