package orchestrator

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
	"sync"
	"syscall"
	"time"

	"github.com/setpoint-go/setpoint/examples/webapp/replica"
)

// usage is the beginning of what -h prints.
const usage = `webapp keeps what runs on this machine equal to a directory of manifests: it starts web servers as processes,
replaces those that die or hang, rolls out changes, and balances the load over them.

A manifest is a file *.json in that directory, and can be edited, added and removed at any time:

	{"name": "hello", "replicas": 3, "port": 8001, "message": "Hello."}

Usage: webapp [flags]

`

// Main is the program webapp: its arguments, its output, its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
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
	work, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	if !*demo { // which has something to clean up, and does so itself
		defer onSecondSignal(func() { os.Exit(exitInterrupted) })()
	}
	err := do(work, *demo, *status, *state, Config{Manifests: *manifests, Lease: *lease, Out: stdout, Logger: logger})
	if err == nil && errors.Is(context.Cause(ctx), errNoReader) {
		err = errNoReader
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// do does what the flags ask for.
func do(ctx context.Context, demo, status bool, state string, cfg Config) (err error) {
	if demo {
		return runDemo(ctx, cfg.Out, cfg.Logger)
	}
	if cfg.State, err = stateDir(state, cfg.Manifests); err != nil {
		return err
	}
	if status {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return printStatus(ctx, cfg.Out, cfg.State)
	}
	return orchestrate(ctx, cfg)
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
	o, err := New(cfg)
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

// exitInterrupted is the status of a process that a second signal ends before everything has stopped: 128 and SIGINT.
const exitInterrupted = 130

// onSecondSignal calls f when the second signal comes; the first one begins the orderly stop. The returned function ends that.
func onSecondSignal(f func()) (release func()) {
	signals := make(chan os.Signal, 2) // receives, from package signal, until Stop; never closed
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var listening sync.WaitGroup
	ended := make(chan struct{})
	// Listens for signals beside the program. It ends when release is called.
	listening.Go(func() {
		defer signal.Stop(signals)
		for range 2 {
			select {
			case <-signals:
			case <-ended:
				return
			}
		}
		f()
	})
	return func() {
		close(ended)
		listening.Wait()
	}
}
