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
	"crypto/sha256"
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
	manifests := flags.String("manifests", filepath.Join("examples", "webapp", "manifests"), "the `directory` of the manifests")
	state := flags.String("state", "", "the `directory` of the lease and the records of the replicas; by default one in the\ntemporary directory, for these manifests")
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

	err := controller.RunUntilSignal(context.Background(), func(ctx context.Context) error {
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
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
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

// stateDir returns the state directory: the given one, or one that is the same for each copy with these manifests.
func stateDir(dir, manifests string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	path, err := filepath.Abs(manifests)
	if err != nil {
		return "", fmt.Errorf("webapp: find the manifests: %w", err)
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(os.TempDir(), fmt.Sprintf("webapp-%d-%x", os.Getuid(), sum[:4])), nil
}
