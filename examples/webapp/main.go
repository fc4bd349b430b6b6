// Command webapp is a small orchestrator, made of nothing but this library: it keeps what runs on this machine equal to
// a directory of manifests. Its replicas are real processes, reached over real TCP.
//
//	go run ./examples/webapp                      run, with the manifests in examples/webapp/manifests
//	go run ./examples/webapp -demo                show what it does, in a script of real actions against itself
//	go run ./examples/webapp -status              print the tables of the copy that leads
//
// The way of a change, from the file to the process; each arrow is informer, queue, reconcile, write:
//
//	*.json ──► manifests ──► WebApp ──► webapps ──► Deployment ──► deployments ──► processes
//	                            ▲          │                                          │
//	                            │          └──────► Service ─────► services ────► load balancers
//	                            │                                                     │
//	                            └───────── status ◄───────────────────────────────────┘
//
// Two copies of it may run on one machine: a lease in a file elects the one that works. When that one is killed the other
// adopts the replicas.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/webapp/replica"
)

// usage is the beginning of what -h prints.
const usage = `webapp keeps what runs on this machine equal to a directory of manifests: it starts web servers as processes,
replaces those that die or hang, rolls out changes, and balances the load over them.

A manifest is a file *.json in that directory, and can be edited, added and removed at any time:

	{"name": "hello", "replicas": 3, "port": 8001, "message": "Hello."}

Usage: webapp [flags]

`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: its arguments, its output, its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "replica" {
		return replica.Main(args[1:])
	}
	flags := flag.NewFlagSet("webapp", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	manifests := flags.String("manifests", filepath.Join("examples", "webapp", "manifests"), "the `directory` of the manifests")
	state := flags.String("state", "", "the `directory` of the lease and the records of the replicas; by default one\nfor these manifests in the cache directory of the user")
	lease := flags.Duration("lease", 3*time.Second, "how long another copy waits before it takes over from one that is gone")
	verbose := flags.Bool("v", false, "log what the library does")
	demo := flags.Bool("demo", false, "run a script of real actions, on ports that are free, and exit")
	status := flags.Bool("status", false, "print the tables of the copy that leads, and exit")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "webapp: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))

	ctx, stop := untilGone()
	defer stop(nil)
	stdout = output{stdout, stop}
	err := controller.RunUntilSignal(ctx, func(ctx context.Context) error {
		if *demo {
			return runDemo(ctx, stdout, logger)
		}
		dir, err := stateDir(*state, *manifests)
		if err != nil {
			return err
		}
		if *status {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return printStatus(ctx, stdout, dir)
		}
		return orchestrate(ctx, Config{Manifests: *manifests, State: dir, Lease: *lease, Out: stdout, Logger: logger})
	})
	if err == nil && errors.Is(context.Cause(ctx), errNoReader) {
		err = errNoReader
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// untilGone returns a context that ends when the terminal is closed, or when the returned function is called.
func untilGone() (context.Context, context.CancelCauseFunc) {
	ctx, gone := context.WithCancelCause(context.Background())
	survivePipes()
	hangup := make(chan os.Signal, 1) // receives, from package signal, until the end of ctx; never closed
	notifyHangup(hangup)
	// Listens for the hangup. It ends with ctx, which the caller ends.
	go func() {
		defer signal.Stop(hangup)
		select {
		case s := <-hangup:
			gone(fmt.Errorf("webapp: received signal: %v", s))
		case <-ctx.Done():
		}
	}()
	return ctx, gone
}

// orchestrate runs an orchestrator, which prints its tables on SIGUSR1.
func orchestrate(ctx context.Context, cfg Config) error {
	o, err := NewOrchestrator(cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(cfg.Out, "webapp: manifests in %s, state in %s; Ctrl-C stops in order, twice at once\n", cfg.Manifests, cfg.State)
	ask := make(chan os.Signal, 1) // receives, from package signal, until Stop; never closed
	notifyStatus(ask)
	defer signal.Stop(ask)
	ended := make(chan error, 1)
	// Runs the orchestrator beside the loop that waits for it.
	go func() { ended <- o.Run(ctx) }()
	for {
		select {
		case <-ask:
			if err := o.WriteStatus(ctx, cfg.Out); err != nil {
				cfg.Logger.Warn("the tables could not be written", "error", err)
			}
		case err := <-ended:
			if err == nil {
				fmt.Fprintln(cfg.Out, "webapp: stopped")
			}
			return err
		}
	}
}
