package postgres

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// linger is how long a connection listens without a watch. An informer opens its watch again after each slot that it acquires, and a new
// connection would take longer than the list of the slot.
const linger = time.Second

// listener holds one connection that listens for the notifications of a schema while there are watches, and for linger after the last one. It
// wakes the watches. A lost notification only delays a watch, which looks by itself every [Config.Poll].
type listener struct {
	pool    *pgxpool.Pool
	channel string
	retry   time.Duration // between attempts to connect

	// patience limits how long the server may take to answer, and how long the connection may be idle before it is tested.
	patience time.Duration

	notified broadcast.Signal // wakes the watches

	mu sync.Mutex
	// mu guards the following.
	watches int
	deafs   int                // watches that need no notifications
	needed  bool               // a watch needs them, or the last one did
	turn    context.CancelFunc // makes the goroutine look again at whether any does; nil while it does not wait
	stop    context.CancelFunc // ends the goroutine; nil while there is none
	unused  *time.Timer        // calls end; nil before the first leave
	ended   chan struct{}      // closed when that goroutine has ended
}

// join adds a watch, and leave removes it. The first watch starts the goroutine that listens.
func (l *listener) join() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches++
	l.turnLocked()
	if l.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		ended, before := make(chan struct{}), l.ended
		l.stop, l.ended = stop, ended
		go func() { // listens until end
			defer close(ended)
			if before != nil {
				<-before // so that there is never more than one connection
			}
			for ctx.Err() == nil {
				l.listen(ctx)
				select {
				case <-time.After(l.retry):
				case <-ctx.Done():
				}
			}
		}()
	}
	return l.leave
}

func (l *listener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches--; l.watches > 0 {
		l.turnLocked()
	} else if l.unused == nil {
		l.unused = time.AfterFunc(linger, l.end)
	} else {
		l.unused.Reset(linger)
	}
}

// end ends the goroutine if there is no watch.
func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// deaf says that one watch more, or less, needs no notifications. While no watch needs any, the connection does not listen: the server pays
// for a notification once for each connection that does. When it listens again, the watches are woken.
func (l *listener) deaf(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if is {
		l.deafs++
	} else {
		l.deafs--
	}
	l.turnLocked()
}

func (l *listener) turnLocked() {
	if l.turn != nil {
		l.turn()
	}
}

// takeTurn returns whether any watch needs notifications. turn is called when that may have changed.
func (l *listener) takeTurn(turn context.CancelFunc) (needed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn = turn; l.watches > 0 {
		l.needed = l.deafs < l.watches
	}
	return l.needed
}

// listen wakes the watches at each notification, until the connection fails or ctx ends.
func (l *listener) listen(ctx context.Context) {
	var own *pgx.Conn
	err := inTime(ctx, l.pool, l.patience, func(ctx context.Context) error {
		conn, err := l.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		own = conn.Hijack() // closed below, not returned to the pool, where the next user would receive the notifications
		_, err = own.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize())
		return err
	})
	listening := true
	if own != nil {
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = own.Close(closing)
		}()
	}
	for err == nil {
		l.notified.Wake() // also now: something may have changed before the connection listened
		runtime.Gosched() // a woken watch begins to read before this goroutine begins to wait
		err = l.wait(ctx, own, &listening)
	}
}

// wait waits for a notification, or until the connection listens again. It regularly tests the connection, which could otherwise stay
// half-open for a long time.
func (l *listener) wait(ctx context.Context, own *pgx.Conn, listening *bool) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, l.patience)
		if needed := l.takeTurn(cancel); needed != *listening {
			cancel()
			if err := l.setListening(ctx, own, needed); err != nil {
				return err
			}
			if *listening = needed; needed {
				return nil
			}
			continue
		}
		_, err := own.WaitForNotification(waiting)
		turned := context.Cause(waiting) == context.Canceled // before cancel
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if turned {
			continue
		}
		if !pgconn.Timeout(err) {
			return err
		}
		if err := inTime(ctx, l.pool, l.patience, own.Ping); err != nil {
			return err
		}
	}
}

// setListening makes the connection listen, or not.
func (l *listener) setListening(ctx context.Context, own *pgx.Conn, listening bool) error {
	statement := "UNLISTEN "
	if listening {
		statement = "LISTEN "
	}
	return inTime(ctx, l.pool, l.patience, func(ctx context.Context) error {
		_, err := own.Exec(ctx, statement+pgx.Identifier{l.channel}.Sanitize())
		return err
	})
}
