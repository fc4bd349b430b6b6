// Package leaderelection takes the place of client-go's package in a copy of that module: its own tests then run on an elector of setpoint. See
// .ci/peers. client-go's healthzadaptor.go and metrics.go stay. Fields and methods that only those tests touch are here so that they compile.
package leaderelection

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// The types of the package.
type (
	LeaderElectionConfig struct {
		Lock                                      rl.Interface
		LeaseDuration, RenewDeadline, RetryPeriod time.Duration
		Callbacks                                 LeaderCallbacks
		WatchDog                                  *HealthzAdaptor
		ReleaseOnCancel                           bool
		Name                                      string
		Coordinated                               bool
	}
	LeaderCallbacks struct {
		OnStartedLeading func(context.Context)
		OnStoppedLeading func()
		OnNewLeader      func(identity string)
	}
	LeaderElector struct {
		elector *leaderelect.Elector

		config            LeaderElectionConfig
		observedRecord    rl.LeaderElectionRecord
		observedRawRecord []byte
		observedTime      time.Time
		reportedLeader    string
		clock             clock.Clock
		metrics           leaderMetricsAdapter
	}
)

func NewLeaderElector(lec LeaderElectionConfig) (*LeaderElector, error) {
	if lec.Lock == nil || lec.Lock.Identity() == "" {
		return nil, errors.New("Lock identity is empty")
	}
	lead := func(ctx context.Context, _ *leaderelect.Leadership) error {
		lec.Lock.RecordEvent("became leader")
		go lec.Callbacks.OnStartedLeading(ctx) // client-go does not wait for the work
		<-ctx.Done()
		lec.Lock.RecordEvent("stopped leading")
		return nil
	}
	e, err := newElector(lec, newStore(lec.Lock), lead)
	if err != nil {
		return nil, err
	}
	return &LeaderElector{elector: e, config: lec}, nil
}

func newElector(
	lec LeaderElectionConfig, s leaderelect.LeaseStore, lead func(context.Context, *leaderelect.Leadership) error,
) (*leaderelect.Elector, error) {
	return leaderelect.New(leaderelect.Config{
		Store:            s,
		Key:              lec.Lock.Describe(),
		Identity:         lec.Lock.Identity(),
		LeaseDuration:    lec.LeaseDuration,
		RenewDeadline:    lec.RenewDeadline,
		RetryPeriod:      max(lec.RetryPeriod, 10*time.Millisecond), // the least that is permitted
		ReleaseOnCancel:  lec.ReleaseOnCancel,
		OnStartedLeading: lead,
		OnNewLeader: func(l leaderelect.Leader) {
			if lec.Callbacks.OnNewLeader != nil {
				lec.Callbacks.OnNewLeader(l.Identity)
			}
		},
		Rand:   func() float64 { return 0 }, // no jitter
		Logger: slog.New(slog.DiscardHandler),
	})
}

// RunOrDie is Run of a new elector.
func RunOrDie(ctx context.Context, lec LeaderElectionConfig) {
	le, err := NewLeaderElector(lec)
	if err != nil {
		panic(err)
	}
	if lec.WatchDog != nil {
		lec.WatchDog.SetLeaderElection(le)
	}
	le.Run(ctx)
}

// Run leads at most once.
func (le *LeaderElector) Run(ctx context.Context) {
	defer le.config.Callbacks.OnStoppedLeading()
	if err := le.elector.RunOnce(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "The election has ended")
	}
}

func (le *LeaderElector) GetLeader() string {
	l, _ := le.elector.Leader()
	return l.Identity
}

func (le *LeaderElector) IsLeader() bool { return le.elector.IsLeader() }

// Check has a limit of its own: LeaseDuration.
func (le *LeaderElector) Check(time.Duration) error { return le.elector.Check() }

// tryAcquireOrRenew runs an elector, in a bubble, until it leads, or has read the record once and follows. If the test says that it has observed
// a record for long, it has.
func (le *LeaderElector) tryAcquireOrRenew(ctx context.Context) bool {
	ctx, stop := context.WithCancel(ctx)
	leads := make(chan struct{})
	s := newStore(le.config.Lock)
	s.once = make(chan struct{}, 1)
	s.once <- struct{}{}
	var observed time.Duration
	if le.observedRecord != (rl.LeaderElectionRecord{}) && time.Since(le.observedTime) > 0 {
		s.observed, observed = &le.observedRecord, min(time.Since(le.observedTime), le.config.LeaseDuration)
	}
	config := le.config
	config.Callbacks.OnNewLeader = nil // see maybeReportTransition
	e, err := newElector(config, s, func(ctx context.Context, _ *leaderelect.Leadership) error {
		close(leads)
		<-ctx.Done()
		return nil
	})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.RunOnce(ctx) }()
	select {
	case <-leads:
	case <-time.After(observed):
	}
	synctest.Wait()
	stop()
	<-ended
	le.observedRecord, le.observedTime = s.record, time.Now()
	select {
	case <-leads:
		return true
	default:
		return false
	}
}

func (le *LeaderElector) maybeReportTransition() {
	if le.observedRecord.HolderIdentity != le.reportedLeader {
		le.reportedLeader = le.observedRecord.HolderIdentity
		go le.config.Callbacks.OnNewLeader(le.reportedLeader)
	}
}

func (*LeaderElector) release(klog.Logger) bool                 { panic("not used") }
func (*LeaderElector) tryCoordinatedRenew(context.Context) bool { panic("not used") }

// store is a LeaseStore on client-go's lock. The version is the text of the record.
type store struct {
	lock rl.Interface
	busy chan struct{} // has a value during a call: a lock is for one caller

	// The holder of busy guards the following.

	version string                  // of the record that the lock has
	record  rl.LeaderElectionRecord // the same

	// For a single attempt.

	once     chan struct{}            // if it is not nil, each value permits one read
	observed *rl.LeaderElectionRecord // if it is not nil, it takes the place of what is read
}

var _ leaderelect.LeaseStore = (*store)(nil)

func newStore(lock rl.Interface) *store { return &store{lock: lock, busy: make(chan struct{}, 1)} }

func (s *store) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if s.observed != nil {
		return entry(key, *s.observed), nil
	}
	if s.once != nil {
		select {
		case <-s.once:
		case <-ctx.Done():
			return leaderelect.Entry{}, ctx.Err()
		}
	}
	return s.call(ctx, key, s.read)
}

func (s *store) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return s.call(ctx, e.Key, func(ctx context.Context) error { return s.write(ctx, e, s.lock.Create) })
}

func (s *store) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return s.call(ctx, e.Key, func(ctx context.Context) error {
		if s.version != e.Version { // the lock replaces what it has read or written last
			if err := s.read(ctx); err != nil {
				return err
			}
		}
		if s.version != e.Version {
			return leaderelect.ErrConflict
		}
		err := s.write(ctx, e, s.lock.Update)
		if err != nil {
			s.version = "" // the lock has to read again
		}
		return err
	})
}

// call calls the lock, alone.
func (s *store) call(ctx context.Context, key string, f func(context.Context) error) (leaderelect.Entry, error) {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return leaderelect.Entry{}, ctx.Err()
	}
	defer func() { <-s.busy }()
	if err := f(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	return entry(key, s.record), nil
}

func (s *store) read(ctx context.Context) error {
	s.version = ""
	record, _, err := s.lock.Get(ctx)
	if apierrors.IsNotFound(err) {
		return leaderelect.ErrNotFound
	}
	if err != nil {
		return err
	}
	s.record, s.version = *record, version(*record)
	return nil
}

func (s *store) write(ctx context.Context, e leaderelect.Entry, put func(context.Context, rl.LeaderElectionRecord) error) error {
	record, err := recordOf(e)
	if err != nil {
		return err
	}
	err = put(ctx, record)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return leaderelect.ErrConflict
	}
	if err == nil {
		s.record, s.version = record, version(record)
	}
	return err
}

// value is what the text of an elector has in common with client-go's record.
type value struct {
	Holder      string    `json:"holder"`
	Released    bool      `json:"released,omitzero"`
	Incarnation string    `json:"incarnation"`
	Term        uint64    `json:"term"`
	LeaseMillis int64     `json:"leaseMillis"`
	AcquireTime time.Time `json:"acquireTime"`
	RenewTime   time.Time `json:"renewTime"`
}

// recordOf returns the record of an entry. The whole text is in the strategy, because a lock has no other place for it.
func recordOf(e leaderelect.Entry) (rl.LeaderElectionRecord, error) {
	var v value
	err := json.Unmarshal(e.Value, &v)
	return rl.LeaderElectionRecord{
		HolderIdentity:       v.Holder,
		LeaseDurationSeconds: int((v.LeaseMillis + 999) / 1000),
		AcquireTime:          metav1.Time{Time: v.AcquireTime.Truncate(time.Second)},
		RenewTime:            metav1.Time{Time: v.RenewTime.Truncate(time.Second)},
		LeaderTransitions:    int(e.Term) - 1,
		Strategy:             coordinationv1.CoordinatedLeaseStrategy(e.Value),
	}, err
}

// entry returns the entry of a record. A record of client-go has a term too, and is free if it names no holder.
func entry(key string, r rl.LeaderElectionRecord) leaderelect.Entry {
	e := leaderelect.Entry{Key: key, Value: []byte(r.Strategy), Term: uint64(r.LeaderTransitions) + 1, Version: version(r)}
	var v value
	if r.Strategy == "" || json.Unmarshal(e.Value, &v) != nil || v.Holder != r.HolderIdentity {
		e.Value = text(value{
			Holder: r.HolderIdentity, Released: r.HolderIdentity == "", Incarnation: "client-go", Term: e.Term,
			LeaseMillis: int64(r.LeaseDurationSeconds) * 1000, AcquireTime: r.AcquireTime.Time, RenewTime: r.RenewTime.Time,
		})
	}
	return e
}

func version(r rl.LeaderElectionRecord) string { return string(text(r)) }

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is plain data
	}
	return b
}

// inBubble returns a test in a bubble of testing/synctest.
func inBubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}
