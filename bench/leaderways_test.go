package bench_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// way is the connection of one replica to the store, without a watch.
type way struct {
	w    *leaseWorld
	name string
}

// watchedWay is the same with a watch.
type watchedWay struct{ way }

func (y way) Get(ctx context.Context, key string) (e leaderelect.Entry, err error) {
	if err = y.travel(ctx); err != nil {
		return e, err
	}
	e, err = y.w.store.Get(context.Background(), key)
	if lost := y.travel(ctx); lost != nil {
		return leaderelect.Entry{}, lost
	}
	return e, err
}

func (y way) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return y.write(ctx, func() (leaderelect.Entry, error) { return y.w.store.Create(context.Background(), e) })
}

func (y way) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return y.write(ctx, func() (leaderelect.Entry, error) { return y.w.store.Update(context.Background(), e) })
}

func (y watchedWay) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		for e, err := range y.w.store.Watch(ctx, key) {
			if broken := y.travel(ctx); broken != nil {
				yield(leaderelect.Entry{}, broken)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

var errGivenUp = errors.New("the driver has given up")

// travel delays or loses a message, in either direction.
func (y way) travel(ctx context.Context) error {
	time.Sleep(halfway)
	y.w.mu.Lock()
	c := y.w.cuts[y.name]
	y.w.mu.Unlock()
	if c == nil {
		return ctx.Err()
	}
	var driver <-chan time.Time
	done := ctx.Done()
	switch {
	case c.timeout > 0:
		driver = time.After(c.timeout)
	case c.timeout < 0:
		done = nil
	}
	select {
	case <-c.over:
		return ctx.Err()
	case <-driver:
		return errGivenUp
	case <-done:
		return ctx.Err()
	}
}

// write sends a write to the store and its reply back.
func (y way) write(ctx context.Context, swap func() (leaderelect.Entry, error)) (leaderelect.Entry, error) {
	y.w.mu.Lock()
	slow, isSlow := y.w.slow[y.name]
	late, isLate := y.w.late[y.name]
	delete(y.w.slow, y.name)
	y.w.mu.Unlock()
	if isLate {
		time.AfterFunc(late, func() { _, _ = y.commit(swap) })
		<-ctx.Done()
		return leaderelect.Entry{}, ctx.Err()
	}
	if err := y.travel(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	e, err := y.commit(swap)
	if isSlow {
		select {
		case <-time.After(slow - 2*halfway):
		case <-ctx.Done():
		}
	}
	if lost := y.travel(ctx); lost != nil {
		e, err = leaderelect.Entry{}, lost
	}
	if isSlow {
		y.w.cut(y.name, 0)
	}
	return e, err
}

// commit applies a write at the store.
func (y way) commit(swap func() (leaderelect.Entry, error)) (leaderelect.Entry, error) {
	y.w.mu.Lock()
	defer y.w.mu.Unlock()
	e, err := swap()
	if err != nil {
		return e, err
	}
	var record struct{ Holder, HolderIdentity string } // setpoint's and client-go's
	if err := json.Unmarshal(e.Value, &record); err != nil {
		return e, err
	}
	y.w.written = time.Now()
	if cmp.Or(record.Holder, record.HolderIdentity) != "" {
		y.w.holder = y.name
		return e, nil
	}
	if y.w.holder != "" && y.w.holder != y.name {
		y.w.clobbered++
	}
	y.w.holder = ""
	return e, nil
}

// lock is a resourcelock of client-go on a lease store. It keeps the version of the record between two calls, as client-go's own LeaseLock
// does, and has the same bytes of the record. So it is for one elector.
type lock struct {
	store    leaderelect.LeaseStore
	identity string
	last     leaderelect.Entry
}

var _ resourcelock.Interface = (*lock)(nil)

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	e, err := l.store.Get(ctx, leaseKey)
	if err != nil {
		return nil, nil, asAPIError(err)
	}
	l.last = e
	var record resourcelock.LeaderElectionRecord
	if err := json.Unmarshal(e.Value, &record); err != nil {
		return nil, nil, err
	}
	return &record, e.Value, nil
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.put(ctx, l.store.Create, leaderelect.Entry{Key: leaseKey}, record)
}

func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.put(ctx, l.store.Update, l.last, record)
}

func (l *lock) put(
	ctx context.Context, write func(context.Context, leaderelect.Entry) (leaderelect.Entry, error),
	e leaderelect.Entry, record resourcelock.LeaderElectionRecord,
) (err error) {
	if e.Value, err = json.Marshal(record); err != nil {
		return err
	}
	if e, err = write(ctx, e); err != nil {
		return asAPIError(err)
	}
	l.last = e
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.identity }
func (l *lock) Describe() string   { return leaseKey }

// asAPIError returns err in the form of an API server.
func asAPIError(err error) error {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	switch {
	case errors.Is(err, leaderelect.ErrNotFound):
		return apierrors.NewNotFound(leases, leaseKey)
	case errors.Is(err, leaderelect.ErrConflict):
		return apierrors.NewConflict(leases, leaseKey, err)
	default:
		return err
	}
}

// clientgoElector runs client-go's elector once: its users end the process when it returns.
func clientgoElector(w *leaseWorld, c candidate) (func(context.Context), error) {
	e, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock:            &lock{store: way{w, c.name}, identity: c.identity},
		LeaseDuration:   c.lease,
		RenewDeadline:   c.renew,
		RetryPeriod:     c.retry,
		ReleaseOnCancel: c.release,
		Name:            leaseKey,
		Callbacks: clientgo.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { w.work(ctx, c) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, err
	}
	return e.Run, nil
}

// setpointElector runs setpoint's elector, which competes again after a loss.
func setpointElector(store func(way) leaderelect.LeaseStore) func(*leaseWorld, candidate) (func(context.Context), error) {
	return func(w *leaseWorld, c candidate) (func(context.Context), error) {
		e, err := leaderelect.New(leaderelect.Config{
			Store:           store(way{w, c.name}),
			Key:             leaseKey,
			Identity:        c.identity,
			LeaseDuration:   c.lease,
			RenewDeadline:   c.renew,
			RetryPeriod:     c.retry,
			RequestTimeout:  c.request,
			ReleaseOnCancel: c.release,
			Rand:            w.float,
			Logger:          slog.New(slog.DiscardHandler),

			MaxClockRateSkew: 0.01, // so that the unusual configurations are accepted
			OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
				w.work(ctx, c)
				return nil
			},
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) {
			if err := e.Run(ctx); err != nil && !errors.Is(err, leaderelect.ErrStoreStuck) {
				w.t.Error(err)
			}
		}, nil
	}
}

// electors are the compared electors, and the columns of the table.
var electors = []elector{
	{"client-go 0.37", clientgoElector, func(e leaderelect.Entry) leaderelect.Entry {
		return rewrite(e, map[string]any{"holderIdentity": "foreigner"}, "leaderTransitions")
	}},
	{"setpoint, polling", setpointElector(func(y way) leaderelect.LeaseStore { return y }), usurpSetpoint},
	{"setpoint, watching", setpointElector(func(y way) leaderelect.LeaseStore { return watchedWay{y} }), usurpSetpoint},
}

// usurpSetpoint is the record of setpoint as another program writes it.
func usurpSetpoint(e leaderelect.Entry) leaderelect.Entry {
	e.Term++
	return rewrite(e, map[string]any{"holder": "foreigner", "incarnation": "foreign"}, "term")
}

// rewrite sets fields of the record, and increments one of them.
func rewrite(e leaderelect.Entry, fields map[string]any, count string) leaderelect.Entry {
	record := make(map[string]any)
	if err := json.Unmarshal(e.Value, &record); err != nil {
		panic(err)
	}
	number, _ := record[count].(float64)
	record[count] = number + 1
	maps.Copy(record, fields)
	e.Value, _ = json.Marshal(record)
	return e
}
