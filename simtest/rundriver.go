package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
)

const (
	// leaseTime is longer than a run lasts: the kit decides when a lease is lost.
	leaseTime = 24 * time.Hour

	// stopTime is how long a process may take to stop gracefully: the StopTimeout of its manager, and the time that the manager waits
	// after it.
	stopTime = time.Minute + 11*time.Second
)

// runDriver runs the parts of each process with the real Manager and the real election. It decides what happens when: every reconcile and
// every call of the Env waits for its turn, every watch receives what the driver lets it receive, and controllers are paused. The driver
// resumes one of them until its workers have taken what was ready. A process is the leader until the driver takes the lease away, and
// notices that when the driver lets its watch continue.
type runDriver struct {
	leases     *memlease.Store
	launched   []*runProcess
	leftBehind bool // a part has not ended in time
}

func (d *runDriver) start(p *process) (processDriver, error) {
	r := &runProcess{
		p: p, driver: d, ended: make(chan struct{}), noticed: make(chan struct{}), informers: make(map[*input]controller.Informer),
	}
	quiet := slog.New(slog.DiscardHandler)
	cfg := manager.Config{Logger: quiet}
	if lease := p.program.Lease; lease != "" {
		cfg.Election = &leaderelect.Config{
			Store: processLeases{r}, Key: lease, Identity: p.name, Logger: quiet,
			LeaseDuration: leaseTime, Rand: func() float64 { return 0 },
			OnStepDownOverrun: func(*leaderelect.Leadership) { p.die("ends: it goes on working without the lease") },
		}
	}
	var err error
	r.manager, err = manager.New(cfg)
	return r, err
}

func (d *runDriver) end() {
	for _, r := range d.launched {
		r.p.kill()
		<-r.ended
	}
	if d.leftBehind {
		time.Sleep(time.Hour) // a part may still end, and nothing may outlast the bubble
	}
}

// runProcess is the [processDriver] of run mode.
type runProcess struct {
	p         *process
	driver    *runDriver
	manager   *manager.Manager
	informers map[*input]controller.Informer // as the manager runs them
	err       error                          // of Run, when ended is closed
	ended     chan struct{}                  // closed when Run has returned

	background int // parts that run in the background

	mu sync.Mutex
	// mu guards the following.
	noticed chan struct{} // closed when a process that has lost its lease may notice that; replaced when it leads again
	hangs   chan struct{} // of a process that hangs; closed when it goes on
	deposed bool          // another process has the lease
}

func (d *runProcess) joinLoop(l loop) error {
	var informers []controller.Informer
	for _, src := range l.Informers() {
		managed, err := d.informer(src)
		if err != nil {
			return err
		}
		informers = append(informers, managed)
	}
	l.Pause()
	d.p.loops = append(d.p.loops, l)
	return d.manager.Add(l.managed(informers, d.p.awaitReconcile))
}

func (d *runProcess) joinCache(src controller.Informer) error {
	managed, err := d.informer(src)
	if err != nil {
		return err
	}
	return d.manager.Add(managed)
}

func (d *runProcess) joinBackground(part manager.Part) error {
	d.background++
	return d.manager.Add(part)
}

// informer returns an informer as the manager runs it.
func (d *runProcess) informer(src controller.Informer) (controller.Informer, error) {
	in, err := d.p.inputOf(src)
	if err != nil {
		return nil, err
	}
	if d.informers[in] == nil {
		d.informers[in] = &managedInformer{src, in}
	}
	return d.informers[in], nil
}

// managedInformer is an informer that a manager runs: its input is in the context.
type managedInformer struct {
	controller.Informer
	in *input
}

// Run implements [controller.Informer].
func (m *managedInformer) Run(ctx context.Context) error { return m.Informer.Run(m.in.context(ctx)) }

func (d *runProcess) begin() {
	d.driver.launched = append(d.driver.launched, d)
	// Ends after the context and the parts have ended. The end of the run waits for it.
	go func() {
		defer close(d.ended)
		d.err = d.manager.Run(d.p.ctx)
		d.p.run.wakeUp()
	}()
	synctest.Wait()
}

func (d *runProcess) hasEnded() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

func (d *runProcess) deliver() (did bool) {
	if d.p.zombie {
		return false // as in step mode, where nothing is delivered to it
	}
	for _, in := range d.p.inputs {
		if in.resume() {
			synctest.Wait()
			did = true
		}
		d.p.addKind(in.kind())
	}
	return did || d.awaitList()
}

// awaitList waits until a source that polls has listed what is new, or until something else can happen. In step mode, too, every cache
// reads what it may before a key is reconciled. It returns false if there was nothing to wait for.
func (d *runProcess) awaitList() bool {
	if d.p.dead.Load() || d.p.stopping {
		return false
	}
	for _, in := range d.p.inputs {
		since := in.lateSince()
		switch end := since.Add(longest); {
		case since.IsZero():
		case time.Now().Before(end):
			d.p.run.sleep(end)
			return true
		default:
			d.p.run.failUnlisted(in)
			return false
		}
	}
	return false
}

// work starts the controller, if it has a ready key.
func (d *runProcess) work(loop loop) bool {
	ready, hurry := loop.lastReady()
	if ready == 0 {
		return false
	}
	if hurry != nil && d.p.choose() {
		hurry()
	}
	before := loop.begun()
	loop.Resume()
	synctest.Wait()
	loop.Pause()
	synctest.Wait()
	did := loop.begun() - before
	return d.p.run.countReconciles(d.p, did) || did > 0
}

func (d *runProcess) takesTurns(context.Context) bool { return true }

func (d *runProcess) check() {
	if d.hasEnded() && !d.p.stopping {
		d.p.run.fail(ruleStop, "%s has ended by itself: %v", d.p.name, d.err)
	}
}

func (d *runProcess) unsettled() bool {
	switch {
	case d.background > 0, !d.isDeposed() && d.manager.Stats().State != "leading":
		return true
	default:
		return slices.ContainsFunc(d.p.inputs, func(in *input) bool { return !in.upToDate() })
	}
}

func (d *runProcess) isDeposed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deposed
}

func (d *runProcess) depose(hangs bool) {
	d.mu.Lock()
	d.deposed = true
	if hangs && d.hangs == nil {
		d.hangs = make(chan struct{})
	}
	d.mu.Unlock()
	d.driver.expire(d.p.program.Lease, d.p.name)
}

// expire ends a lease, if a process has it, as if that had released it: an elector that has seen the record takes the lease at once. It would
// not trust a record that is missing.
func (d *runDriver) expire(lease, holder string) {
	e, record := d.record(lease)
	if record["holder"] != holder {
		return
	}
	record["holder"], record["released"] = "", true
	var err error
	if e.Value, err = json.Marshal(record); err == nil {
		_, err = d.leases.Update(context.Background(), e)
	}
	if err != nil {
		panic(err) // nothing else writes in the meantime
	}
}

// record returns the record of a lease; nil if nobody has had it.
func (d *runDriver) record(lease string) (e leaderelect.Entry, record map[string]any) {
	e, err := d.leases.Get(context.Background(), lease)
	if err == nil {
		err = json.Unmarshal(e.Value, &record)
	}
	if err != nil && !errors.Is(err, leaderelect.ErrNotFound) {
		panic(err) // memory does not fail, and an elector has written the record
	}
	return e, record
}

func (d *runProcess) unhang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hangs != nil {
		close(d.hangs)
		d.hangs = nil
	}
}

// lossNoticed returns a channel that is closed when the process may notice that it has lost its lease; nil if it has not lost it.
func (d *runProcess) lossNoticed() (noticed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deposed {
		noticed = d.noticed
	}
	return noticed
}

// letNotice lets the process notice that it has lost its lease.
func (d *runProcess) letNotice() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.noticed:
	default:
		close(d.noticed)
	}
}

func (d *runProcess) noticeLoss() {
	d.letNotice()
	synctest.Wait()
}

// onStandby counts a process that has the lease: if its successor has ended by itself, it is elected when it notices the loss.
func (d *runProcess) onStandby() bool {
	if d.manager.Stats().State == "standby" {
		return true
	}
	_, record := d.driver.record(d.p.program.Lease)
	return record["holder"] == d.p.name
}

// lead gives the lease back: the end of the successor has ended its lease, so the process is elected.
func (d *runProcess) lead() {
	d.mu.Lock()
	d.deposed, d.noticed = false, make(chan struct{})
	d.mu.Unlock()
	synctest.Wait()
}

func (d *runProcess) restart() {
	d.p.note("FAULT it has to stop")
	d.stop()
}

// stop waits until the controllers are drained and the lease is released.
func (d *runProcess) stop() {
	r := d.p.run
	for _, loop := range d.p.loops {
		loop.Resume()
	}
	d.p.stopping = true
	d.p.cancel(errStopped)
	synctest.Wait()
	for end := time.Now().Add(stopTime); !d.hasEnded() && !r.failed(); {
		if r.turn() {
			continue
		}
		if !time.Now().Before(end) {
			r.fail(ruleStop, "%s has not stopped %v after it had to", d.p.name, stopTime)
			break
		}
		if !d.hasEnded() {
			r.sleep(end)
		}
	}
	if d.hasEnded() && d.err != nil {
		d.driver.leftBehind = errors.Is(d.err, manager.ErrStopTimeout)
		r.fail(ruleStop, "%s stops with an error: %v", d.p.name, d.err)
	}
	d.p.dead.Store(true)
}

func (d *runProcess) kill() {
	for _, loop := range d.p.loops {
		loop.Pause()
	}
	d.unhang()
	d.letNotice()
	d.depose(false) // unless it has released the lease
}

// end does nothing: the end of the run waits for the goroutines that are left.
func (d *runProcess) end() {}

// processLeases is the store of leases, as seen by one process.
type processLeases struct{ d *runProcess }

// enter waits while the process hangs.
func (l processLeases) enter() error {
	l.d.mu.Lock()
	hang := l.d.hangs
	l.d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if l.d.p.dead.Load() {
		return errEnded
	}
	return nil
}

// Get implements [leaderelect.LeaseStore].
func (l processLeases) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.d.driver.leases.Get(ctx, key)
}

// Create implements [leaderelect.LeaseStore].
func (l processLeases) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.d.driver.leases.Create(ctx, e)
}

// Update implements [leaderelect.LeaseStore].
func (l processLeases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.d.driver.leases.Update(ctx, e)
}

// Watch implements [leaderelect.Watcher]. A process that has lost its lease notices that when lossNoticed lets it.
func (l processLeases) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		for e, err := range l.d.driver.leases.Watch(ctx, key) {
			if noticed := l.d.lossNoticed(); noticed != nil {
				select {
				case <-noticed:
				case <-ctx.Done():
					return
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
