// Command jobs runs each job a number of times, at intervals. Kill it at any moment and start it again: it resumes where it stopped. Its
// jobs, the time of each next run, and the lease of the leader are in one SQLite file. Its queue is rebuilt from the jobs.
//
//	jobs -db jobs.db backup=5 report=3   # runs 5 and 3 times; start it again without names to finish
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

type (
	// Job is the wanted runs of a job, and its progress.
	Job struct {
		Runs     int           // wanted
		Interval time.Duration // from one run to the next
		Status   Status        `store:"status"`
	}

	// Status is the state that must survive a restart. A reconciler keeps none of it in memory.
	Status struct {
		Done int
		Next time.Time // of the next run
	}
)

// run runs all jobs in db while this process leads, until ctx ends. want has the new jobs, and how often to run each.
func run(ctx context.Context, db *sqlite.Backend, want map[string]Job, lease time.Duration) error {
	jobs, err1 := store.Open(db, "Job", store.Config[Job]{})
	records, err2 := store.Open(db, "Lease", store.Config[storelease.Record]{})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for name, job := range want {
		if _, err := jobs.Create(ctx, store.Object[Job]{Key: name, Value: job}); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	cached, err1 := informer.New(jobs, store.Key, informer.Config{Name: "jobs"})
	leases := storelease.New(records, storelease.Config{})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	reconcile := func(ctx context.Context, name string) (controller.Result, error) {
		job, ok := cached.Get(name)
		if !ok || job.Value.Status.Done == job.Value.Runs {
			return controller.Result{}, nil
		}
		if d := time.Until(job.Value.Status.Next); d > 0 {
			return controller.Result{RequeueAfter: d}, nil // lost with the process, and recomputed from the status
		}
		done := job.Value.Status.Done + 1
		fmt.Printf("%s: run %d of %d\n", name, done, job.Value.Runs)
		// If the process is killed here, this run is repeated.
		job.Value.Status = Status{Done: done, Next: time.Now().Add(job.Value.Interval)}
		_, err := jobs.UpdateStatus(ctx, job) // refused if another process leads; else the event adds the key again
		return controller.Result{}, err
	}
	c, err := controller.New("jobs", reconcile, controller.Config[string]{Workers: 4}, controller.For(cached))
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{Election: &leaderelect.Config{Store: leases, Key: "jobs", LeaseDuration: lease}}, c)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

func main() {
	log.SetFlags(0)
	file := flag.String("db", "jobs.db", "the file")
	interval := flag.Duration("interval", time.Second, "time between two runs of a new job")
	lease := flag.Duration("lease", 5*time.Second, "how long a process that was killed stays the leader")
	flag.Parse()
	want := map[string]Job{}
	for _, arg := range flag.Args() {
		name, text, _ := strings.Cut(arg, "=")
		runs, err := strconv.Atoi(text)
		if err != nil {
			log.Fatalf("jobs: argument %q: must be a name, =, and a number", arg)
		}
		want[name] = Job{Runs: runs, Interval: *interval}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := sqlite.Open(ctx, *file, sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(run(ctx, db, want, *lease), db.Close()); err != nil {
		log.Fatal(err)
	}
}
