package informer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/wait"
)

// catchUps are the reads of the source that the calls of CatchUp and Hold of one informer share.
type catchUps struct {
	source   Versioner // nil if the source must list
	versions versionReads
	lists    *sharedLists  // of CatchUp
	holds    *sharedLists  // of Hold
	resets   atomic.Uint64 // how many new histories the list that is in the cache has followed; written by the goroutine of Run
}

// sharedLists are lists that concurrent calls share: a call may use a list that began after it.
type sharedLists struct {
	calls   atomic.Uint64    // so far; a call is counted before it requests a list
	turn    chan struct{}    // capacity 1; the call that put a token here may request a list
	applied atomic.Uint64    // a list that began after this many calls is in the cache; written by the goroutine of Run
	listed  broadcast.Signal // woken when applied grows
}

func newSharedLists() *sharedLists { return &sharedLists{turn: make(chan struct{}, 1)} }

// versionReads lets concurrent calls share reads: a call may use the result of a read that began after it. So many calls at once make two reads.
type versionReads struct {
	turn  chan struct{} // capacity 1; the call that put a token here may read, and use covers and value
	calls atomic.Uint64 // so far

	covers uint64 // calls whose result is value
	value  Version
}

// do returns the result of a read that has begun after the call.
func (b *versionReads) do(ctx context.Context, ended <-chan struct{}, read func() (Version, error)) (v Version, err error) {
	call := b.calls.Add(1)
	select {
	case b.turn <- struct{}{}:
	case <-ended:
		return v, ErrEnded
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
	defer func() { <-b.turn }()
	if b.covers < call {
		covers := b.calls.Load()
		if v, err = read(); err != nil {
			return v, err
		}
		b.covers, b.value = covers, v
	}
	return b.value, nil
}

// readLimit limits one read of the latest version. A connection that died without an error must not use up the time of the caller.
const readLimit = 10 * time.Second

func newCatchUps(src any) catchUps {
	return catchUps{
		source: partOf[Versioner](src), versions: versionReads{turn: make(chan struct{}, 1)}, lists: newSharedLists(), holds: newSharedLists(),
	}
}

// CatchUp returns when the cache has every change that was committed before the call, so the change is at least pending for the handlers.
// A cache that mirrors a source through a watch is always a little behind. Call CatchUp before an action that must not be based on an
// earlier state, such as the first one of a new leader. A controller does that by itself: see controller.Controller.Run.
//
// CatchUp asks a [Versioner] for its version, and waits until the cache has reached it. Any other source lists once more, also for several
// calls at once, and CatchUp waits until that list is in the cache. A read that fails is reported to Config.OnError and repeated after
// Config.Backoff. If the last read of the source has failed, CatchUp makes the informer try again at once.
//
// If ctx ends first, the error of CatchUp wraps the cause of ctx. If Run ends first, its error wraps [ErrEnded]. Before Run, CatchUp
// waits.
func (in *Informer[K, T]) CatchUp(ctx context.Context) error {
	if err := in.catchUp(ctx); err != nil {
		return fmt.Errorf("informer: catch up %s: %w", in.cfg.Name, err)
	}
	return nil
}

func (in *Informer[K, T]) catchUp(ctx context.Context) error {
	if in.catchUps.source == nil || in.reflector.resets.Load() > in.catchUps.resets.Load() { // versions of two histories cannot be compared
		return in.catchUps.lists.wait(ctx, in.ended, func() { in.reflector.request(&in.reflector.relist) })
	}
	at, err := in.catchUps.versions.do(ctx, in.ended, func() (Version, error) {
		if in.progress.failing.Load() {
			in.reflector.hurry()
		}
		return in.readVersion(ctx)
	})
	if err != nil {
		return err
	}
	return in.progress.wait(ctx, at, in.ended)
}

// readVersion returns the latest version of the source. It tries until it succeeds.
func (in *Informer[K, T]) readVersion(ctx context.Context) (v Version, err error) {
	for failures := 0; ; failures++ {
		limited, cancel := context.WithTimeoutCause(ctx, readLimit, errNoAnswer)
		err = wait.Call(limited, func(ctx context.Context) (err error) {
			v, err = in.catchUps.source.LatestVersion(ctx)
			return err
		})
		cancel()
		switch {
		case broadcast.IsClosed(in.ended):
			return 0, ErrEnded
		case ctx.Err() != nil && err != nil:
			return 0, errors.Join(context.Cause(ctx), err)
		case err == nil:
			return v, nil
		}
		in.cfg.OnError(fmt.Errorf("informer: read the latest version of %s: %w", in.cfg.Name, err))
		if wait.Sleep(ctx, in.cfg.Backoff.Delay(failures)) != nil {
			return 0, errors.Join(context.Cause(ctx), err)
		}
	}
}

// errNoAnswer is the cause of a read of the latest version that has taken too long.
var errNoAnswer = errors.New("the source has not answered in time")

// wait returns when a list that began after the call is in the cache. Of concurrent calls one requests a list at a time, because a request
// ends a list in flight. That list is also for the calls that come before it begins.
func (l *sharedLists) wait(ctx context.Context, ended <-chan struct{}, request func()) error {
	call := l.calls.Add(1)
	select {
	case l.turn <- struct{}{}:
	case <-ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if l.applied.Load() >= call {
		return nil
	}
	request()
	for {
		listed := l.listed.Next()
		if l.applied.Load() >= call {
			return nil
		}
		select {
		case <-listed:
		case <-ended:
			return ErrEnded
		case <-ctx.Done():
			return fmt.Errorf("no list has arrived: %w", context.Cause(ctx))
		}
	}
}

// serve records that the cache has a list that began after this many calls.
func (l *sharedLists) serve(calls uint64) {
	if calls > l.applied.Load() {
		l.applied.Store(calls)
		l.listed.Wake()
	}
}
