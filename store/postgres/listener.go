package postgres

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/internal/follow"
)

// listener holds one connection that listens for the notifications of a schema while there are watches, and wakes them up. A lost
// notification only delays a watch, which looks by itself every [Config.Poll].
type listener struct {
	pool    *pgxpool.Pool
	channel string
	retry   time.Duration // between attempts to connect

	// patience limits how long the server may take to answer, and how long the connection may be idle before it is tested.
	patience time.Duration

	notified follow.Signal // wakes the watches

	mu sync.Mutex
	// mu guards the following.
	watches int
	stop    context.CancelFunc // ends the goroutine; nil while there is none
	ended   chan struct{}      // closed when that goroutine has ended
}

// join adds a watch, and leave removes it. The first watch starts the goroutine that listens, and the last one ends it.
func (l *listener) join() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches++; l.watches == 1 {
		ctx, stop := context.WithCancel(context.Background())
		ended, before := make(chan struct{}), l.ended
		l.stop, l.ended = stop, ended
		go func() { // listens while there are watches; the last of them ends it and waits for it
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
	l.watches--
	last, ended := l.watches == 0, l.ended
	if last {
		l.stop()
	}
	l.mu.Unlock()
	if last {
		<-ended
	}
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
		err = l.wait(ctx, own)
	}
}

// wait waits for a notification. It regularly tests the connection, which could otherwise stay half-open for a long time.
func (l *listener) wait(ctx context.Context, own *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, l.patience)
		_, err := own.WaitForNotification(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
			return err
		}
		if err := inTime(ctx, l.pool, l.patience, own.Ping); err != nil {
			return err
		}
	}
}
