package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
)

const (
	envTarget = "SETPOINT_WRITERS_TARGET" // the argument of open
	envName   = "SETPOINT_WRITERS_NAME"   // of the process
	envLossy  = "SETPOINT_WRITERS_LOSSY"  // set if the backend may lose acknowledged writes
)

// shared is the key of the counter that all writers increment.
const shared = "shared"

// WriterMain makes this process a writer process, and does not return, if its environment asks for it. open opens the backend.
func WriterMain(open func(ctx context.Context, target string) (backend.Backend, error)) {
	target := os.Getenv(envTarget)
	if target == "" {
		return
	}
	if err := runWriter(target, os.Getenv(envName), os.Getenv(envLossy) != "", open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runWriter writes with two goroutines until the standard input ends. It prints each write after the store has accepted it. If the backend may
// lose writes, and the store refuses a write, a goroutine goes on with its next round.
func runWriter(target, name string, lossy bool, open func(ctx context.Context, target string) (backend.Backend, error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the parent closes the pipe, at the latest when the parent has died
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var db backend.Backend
	var s store.Store[App]
	if err := persist(func(ctx context.Context) (err error) {
		if db, err = open(ctx, target); err == nil {
			s, err = store.Open(db, appKind, store.Config[App]{})
		}
		return err
	}); err != nil {
		return err
	}
	var g wait.Group
	for i := range 2 {
		g.Start(ctx, func(ctx context.Context) error {
			w := &writer{db: db, store: s, name: fmt.Sprint(name, "/", i)}
			for n := 1; ctx.Err() == nil; n++ {
				if err := w.round(n); err != nil && !(lossy && refuses(err)) {
					return fmt.Errorf("%s: round %d: %w", w.name, n, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// writer is one goroutine that writes.
type writer struct {
	db    backend.Backend
	store store.Store[App]
	name  string
}

// kept is the number of objects that a writer keeps.
const kept = 3

// attempt limits one attempt of a call. A stalled network must not stall the writer forever.
const attempt = 2 * time.Second

// persist calls f until it succeeds, or until the store refuses the write. A round that has begun is completed, and the process waits for
// that before it ends.
func persist(f func(ctx context.Context) error) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), attempt)
		err := f(ctx)
		cancel()
		if err == nil || refuses(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// refuses reports whether the store has refused a write because of what it holds.
func refuses(err error) bool {
	var refused *store.Error
	return errors.As(err, &refused) && (errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound))
}

// do makes a write until its outcome is known, and prints it. If an attempt fails, and the store refuses a later one, the first may have been
// applied after all: then applied says whether the object, or its tombstone, shows that.
func (w *writer) do(
	what, key string, write func(ctx context.Context) (store.Object[App], error), applied func(o store.Object[App], deleted bool) bool,
) (o store.Object[App], err error) {
	attempts := 0
	err = persist(func(ctx context.Context) (err error) {
		attempts++
		o, err = write(ctx)
		return err
	})
	if refuses(err) && attempts > 1 {
		refusal := err
		var deleted bool
		if err = persist(func(ctx context.Context) (err error) {
			o, deleted, err = w.read(ctx, key)
			return err
		}); err == nil && !applied(o, deleted) {
			err = refusal
		}
	}
	if err == nil {
		fmt.Println(what, key, o.Version)
	}
	return o, err
}

// read returns the object under key, or the key and the version of its tombstone.
func (w *writer) read(ctx context.Context, key string) (o store.Object[App], deleted bool, err error) {
	o, err = w.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		var r backend.Record
		r, err = w.db.Get(ctx, appKind, key)
		return store.Object[App]{Key: key, Version: r.Version}, r.Deleted, err
	}
	return o, false, err
}

// round creates an object, updates it, deletes an older one, and increments the counter that all writers share.
func (w *writer) round(n int) error {
	key := func(n int) string { return fmt.Sprint("key/", w.name, "/", n) }
	o, err := w.do("put", key(n), func(ctx context.Context) (store.Object[App], error) {
		return w.store.Create(ctx, store.Object[App]{Key: key(n)})
	}, func(_ store.Object[App], deleted bool) bool { return !deleted })
	if err != nil {
		return err
	}
	o.Value.Image = "second"
	if _, err = w.do("put", key(n), func(ctx context.Context) (store.Object[App], error) {
		return w.store.Update(ctx, o)
	}, func(now store.Object[App], _ bool) bool { return now.Value == o.Value }); err != nil {
		return err
	}
	if n > kept {
		if _, err = w.do("delete", key(n-kept), func(ctx context.Context) (store.Object[App], error) {
			return w.store.Delete(ctx, key(n-kept))
		}, func(_ store.Object[App], deleted bool) bool { return deleted }); err != nil {
			return err
		}
	}
	return w.raise(n)
}

// raise increments the counter. Its label with the name of the writer has the last round of the writer that is in the count.
func (w *writer) raise(n int) error {
	round := strconv.Itoa(n)
	for {
		var o store.Object[App]
		if err := persist(func(ctx context.Context) (err error) {
			o, err = w.store.Get(ctx, shared)
			return err
		}); err != nil {
			return err
		}
		i, err := strconv.Atoi(o.Value.Image)
		if err != nil {
			return err
		}
		o.Value.Image = strconv.Itoa(i + 1)
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[w.name] = round
		if _, err = w.do("raise", shared, func(ctx context.Context) (store.Object[App], error) {
			return w.store.Update(ctx, o)
		}, func(now store.Object[App], _ bool) bool { return now.Labels[w.name] == round }); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
