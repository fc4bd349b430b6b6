package follow

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/wait"
)

// errExit is the error of a read ahead that has ended its goroutine.
var errExit = errors.New("the read has called runtime.Goexit")

// Ahead calls use with the pages that read returns, until use returns false or read says that there are no more. While use has a page,
// Ahead reads the next one. It returns the error of read, or the cause of ctx if that ends between two pages.
//
// While pages are read ahead, these hold:
//
//  1. Pages are used in the order in which they are read, each once, in the goroutine of the caller.
//  2. There is one call of read at a time, and none after it has returned an error or the last page.
//  3. There are at most two pages: one that is used, and one that is being read, or is read and waits.
//  4. An error of read is returned after the pages before it were used.
//  5. When Ahead returns or panics, read has returned. Its context ends when use returns false, or panics.
//  6. A panic or a runtime.Goexit of a read ahead is its error, since it is not in the goroutine of the caller.
func Ahead[P any](ctx context.Context, read func(context.Context) (page P, more bool, err error), use func(P) bool) error {
	reading, cancel := context.WithCancel(ctx)
	type result struct {
		page P
		more bool
		err  error
	}
	var next chan result // receives one result; nil while nothing is read ahead
	defer func() {
		cancel()
		if next != nil {
			<-next
		}
	}()
	var r result
	r.page, r.more, r.err = read(reading)
	for r.err == nil && ctx.Err() == nil {
		if r.more {
			next = make(chan result, 1)
			go func(next chan<- result) { // reads while use has the page before; the defer above ends it and waits for it
				r := result{err: errExit}
				defer func() { next <- r }()
				r.err = wait.Call(reading, func(ctx context.Context) (err error) {
					r.page, r.more, err = read(ctx)
					return err
				})
			}(next)
		}
		if !use(r.page) || !r.more {
			return nil
		}
		r = <-next
		next = nil
	}
	if r.err != nil {
		return r.err
	}
	return context.Cause(ctx)
}
