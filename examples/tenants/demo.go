package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

// demoTimeout is the longest time that the story may take. It takes about 20 seconds, and more on a busy machine.
const demoTimeout = 3 * time.Minute

// demo plays the people of the story: they write the table, and break the cloud and the replicas. The cloud is in this process; the
// replicas are separate processes.
type demo struct {
	db        *database
	tenants   store.Store[Tenant]
	resources store.Store[Resource]
	probes    store.Store[int]
	cloud     *cloud.Cloud
	replicas  *replicas

	mu    sync.Mutex // one line at a time
	out   io.Writer
	start time.Time
}

// runDemo tells the story, in a database of its own unless one is given.
func runDemo(ctx context.Context, address string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	if address == "" {
		dir, err := os.MkdirTemp("", "tenants-demo-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		address = "sqlite:" + filepath.Join(dir, "tenants.db")
	}
	return withDatabase(ctx, address, true, func(db *database) (err error) {
		if rows, err := db.list(ctx); err != nil || len(rows) > 0 {
			return errors.Join(err, fmt.Errorf("tenants: demo: the table tenants has %d rows, and must be empty", len(rows)))
		}
		d := &demo{db: db, out: out, start: time.Now()}
		var errs [5]error
		d.tenants, errs[0] = store.Open(db, kindTenant, store.Config[Tenant]{})
		d.resources, errs[1] = store.Open(db, kindResource, store.Config[Resource]{})
		d.probes, errs[2] = store.Open(db, "Probe", store.Config[int]{})
		d.cloud, errs[3] = cloud.New(cloud.Config{})
		l, err := net.Listen("tcp", "localhost:0")
		errs[4] = err
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		d.replicas = &replicas{
			args: []string{"-store", address, "-cloud", "http://" + l.Addr().String(), "-lease", "3s", "-look-each", "2s"},
			tell: func(line string) { d.say("  %s", line) }, all: make(map[string]*replica), over: make(map[string]bool),
		}
		var g wait.Group
		serving, stop := context.WithCancel(ctx)
		g.Start(serving, func(ctx context.Context) error { return serve(ctx, l, d.cloud) })
		defer func() { stop(); err = errors.Join(err, g.Wait()) }()
		if err := d.play(ctx); err != nil {
			cancel() // kills the replicas
			return errors.Join(fmt.Errorf("tenants: demo: %w", err), d.replicas.stop())
		}
		return nil
	})
}

// play plays the chapters.
func (d *demo) play(ctx context.Context) error {
	for _, chapter := range []struct {
		title string
		play  func(context.Context) error
		skip  bool
	}{
		{"Three replicas start, and one leads", d.begin, false},
		{"A user inserts a row", d.create, false},
		{"A row that the cloud refuses, and its correction", d.park, false},
		{"The cloud loses a bucket", d.drift, false},
		{"One customer inserts 12 rows, and then another one inserts 1", d.share, false},
		{"The cloud is down for some seconds", d.outage, false},
		{"kill -9 of the leader", d.kill, false},
		{"SIGSTOP of the leader, with a call on its way", d.suspend, !suspends},
		{"All rows are deleted", d.remove, false},
		{"The replicas stop gracefully", d.end, false},
	} {
		if chapter.skip {
			continue
		}
		d.say("%s", chapter.title)
		if err := chapter.play(ctx); err != nil {
			return fmt.Errorf("%s: %w", chapter.title, err)
		}
		if err := wait.Sleep(ctx, 100*time.Millisecond); err != nil { // for the last lines of the replicas
			return err
		}
	}
	return nil
}

func (d *demo) begin(ctx context.Context) error {
	for _, name := range []string{"a", "b", "c"} {
		if err := d.replicas.start(ctx, name); err != nil {
			return err
		}
	}
	return d.until(ctx, "a replica leads", func(context.Context) (bool, error) {
		_, term := d.replicas.leads()
		return term > 0, nil
	})
}

func (d *demo) create(ctx context.Context) error {
	return errors.Join(d.insert(ctx, "acme", "shop", "pro", "eu"), d.ready(ctx, "acme/shop"))
}

func (d *demo) park(ctx context.Context) error {
	if err := d.insert(ctx, "initech", "crm", "free", "moon"); err != nil {
		return err
	}
	err := d.until(ctx, "the tenant is parked", func(ctx context.Context) (bool, error) {
		o, err := d.tenants.Get(ctx, "initech/crm")
		ready, _ := o.Value.Conditions.Get("Ready")
		return ready.Reason == "Parked", ignore(err, store.ErrNotFound)
	})
	if err != nil {
		return err
	}
	return errors.Join(d.exec(ctx, "UPDATE tenants SET region = 'eu' WHERE customer = 'initech'"), d.ready(ctx, "initech/crm"))
}

func (d *demo) drift(ctx context.Context) error {
	if !d.cloud.Lose("acme/shop/bucket") {
		return errors.New("there is no bucket to lose")
	}
	return d.until(ctx, "the bucket is back", func(context.Context) (bool, error) {
		return d.region("acme/shop/bucket") == "eu", nil
	})
}

func (d *demo) share(ctx context.Context) error {
	for i := range 12 {
		if err := d.insert(ctx, "umbrella", fmt.Sprintf("lab-%02d", i+1), "free", "eu"); err != nil {
			return err
		}
	}
	if err := errors.Join(d.insert(ctx, "globex", "blog", "free", "eu"), d.ready(ctx, "globex/blog")); err != nil {
		return err
	}
	waiting, err := d.waiting(ctx)
	if err == nil && waiting < 4 {
		err = fmt.Errorf("only %d tenants wait: globex was not next", waiting)
	}
	d.say("  globex did not wait for the %d tenants of umbrella that the limit of the cloud still holds up", waiting)
	return err
}

func (d *demo) outage(ctx context.Context) error {
	d.cloud.SetDown(true)
	if err := wait.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	waiting, err := d.waiting(ctx)
	d.say("  the cloud is up again; %d tenants have waited, and none was given up", waiting)
	d.cloud.SetDown(false)
	if err != nil || waiting == 0 {
		return errors.Join(err, fmt.Errorf("%d tenants wait", waiting))
	}
	return d.until(ctx, "all tenants are ready", func(ctx context.Context) (bool, error) {
		waiting, err := d.waiting(ctx)
		return waiting == 0, err
	})
}

func (d *demo) kill(ctx context.Context) error {
	leader, term := d.replicas.leads()
	if err := d.replicas.kill(leader); err != nil {
		return err
	}
	d.say("  %s is gone; in the meantime, acme moves to us", leader.name)
	if err := d.exec(ctx, "UPDATE tenants SET region = 'us' WHERE customer = 'acme'"); err != nil {
		return err
	}
	if err := d.takeover(ctx, term); err != nil {
		return err
	}
	if err := d.until(ctx, "all of acme is in us", func(context.Context) (bool, error) {
		return d.region("acme/shop/bucket") == "us" && d.region("acme/shop/database") == "us" && d.region("acme/shop/dns") == "us", nil
	}); err != nil {
		return err
	}
	return d.replicas.start(ctx, leader.name)
}

func (d *demo) suspend(ctx context.Context) error {
	arrived, release := d.cloud.Hold()
	defer release()
	if err := d.move(ctx, "us"); err != nil {
		return err
	}
	select {
	case <-arrived:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	old, term := d.replicas.leads()
	if err := d.freeze(ctx, old.cmd.Process.Pid); err != nil {
		return err
	}
	defer func() { _ = resume(old.cmd.Process.Pid) }()
	d.say("  %s is suspended; its call to move globex to us is still in the network; globex moves back to eu", old.name)
	// Once globex is ready, the successor has called the cloud.
	if err := errors.Join(d.move(ctx, "eu"), d.takeover(ctx, term), d.ready(ctx, "globex/blog")); err != nil {
		return err
	}
	fenced := d.cloud.Stats().Fenced
	release()
	if err := d.until(ctx, "the call is refused", func(context.Context) (bool, error) {
		return d.cloud.Stats().Fenced > fenced, nil
	}); err != nil {
		return err
	}
	d.say("  the call of %s arrives, and the cloud refuses it: its term %d is over; globex stays in %s",
		old.name, term, d.region("globex/blog/bucket"))
	if err := resume(old.cmd.Process.Pid); err != nil {
		return err
	}
	return d.until(ctx, "the old leader knows", func(context.Context) (bool, error) { return d.replicas.deposed(old.name), nil })
}

func (d *demo) remove(ctx context.Context) error {
	if err := d.exec(ctx, "DELETE FROM tenants"); err != nil {
		return err
	}
	return d.until(ctx, "nothing is left", func(ctx context.Context) (bool, error) {
		tenants, err1 := d.tenants.List(ctx)
		resources, err2 := d.resources.List(ctx)
		return len(tenants.Items)+len(resources.Items)+len(d.cloud.All().Items) == 0, errors.Join(err1, err2)
	})
}

func (d *demo) end(context.Context) error {
	err := d.replicas.stop()
	s := d.cloud.Stats()
	d.say("The cloud is empty. Of %d calls, it has refused %d by its limit, and %d of a former leader", s.Calls, s.Limited, s.Fenced)
	return err
}

// freeze suspends a process that is not writing to the database. A suspended writer would block all other writers, including its successor.
func (d *demo) freeze(ctx context.Context, pid int) error {
	for {
		if err := suspend(pid); err != nil {
			return err
		}
		probe, cancel := context.WithTimeout(ctx, time.Second)
		_, err := store.CreateOrUpdate(probe, d.probes, "probe", func(o *store.Object[int]) error { o.Value++; return nil })
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := resume(pid); err != nil {
			return err
		}
		if err := wait.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// takeover waits until another term has begun.
func (d *demo) takeover(ctx context.Context, term uint64) error {
	return d.until(ctx, "another replica leads", func(context.Context) (bool, error) {
		_, now := d.replicas.leads()
		return now > term, nil
	})
}

// move changes the region of globex in the table.
func (d *demo) move(ctx context.Context, region string) error {
	return d.exec(ctx, "UPDATE tenants SET region = $1 WHERE customer = 'globex'", region)
}

func (d *demo) insert(ctx context.Context, customer, name, plan, region string) error {
	return d.exec(ctx, "INSERT INTO tenants (customer, name, plan, region) VALUES ($1, $2, $3, $4)", customer, name, plan, region)
}

func (d *demo) exec(ctx context.Context, statement string, args ...any) error {
	_, err := d.db.sql.ExecContext(ctx, statement, args...)
	return err
}

// region returns the region of a resource in the cloud, or "" if it does not exist.
func (d *demo) region(key string) string {
	for _, r := range d.cloud.All().Items {
		if r.Key == key {
			return r.Region
		}
	}
	return ""
}

// ready waits until a tenant is ready, in the state of its row.
func (d *demo) ready(ctx context.Context, key string) error {
	return d.until(ctx, key+" is ready", func(ctx context.Context) (bool, error) {
		row, _, err := d.db.row(ctx, key)
		o, err2 := d.tenants.Get(ctx, key)
		return o.Value.Row == row && o.Value.Conditions.AllOK(o.Generation, "Ready"), errors.Join(err, ignore(err2, store.ErrNotFound))
	})
}

// waiting returns the number of rows without a ready tenant. None may be parked.
func (d *demo) waiting(ctx context.Context) (n int, err error) {
	rows, err1 := d.db.list(ctx)
	all, err2 := d.tenants.List(ctx)
	n = len(rows)
	for _, o := range all.Items {
		ready, _ := o.Value.Conditions.Get("Ready")
		if ready.OK && ready.Generation == o.Generation {
			n--
		}
		if ready.Reason == "Parked" {
			err = fmt.Errorf("%s is parked: %s", o.Key, ready.Message)
		}
	}
	return n, errors.Join(err, err1, err2)
}

// until waits until a condition holds.
func (d *demo) until(ctx context.Context, what string, so func(context.Context) (bool, error)) error {
	for {
		if ok, err := so(ctx); ok || err != nil {
			return err
		}
		if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
	}
}

// say prints a line of the story.
func (d *demo) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "%5.1fs  %s\n", time.Since(d.start).Seconds(), strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}
