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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/setpoint-go/setpoint/examples/webapp/replica"
)

// usage is the beginning of the output of -h.
const usage = `webapp keeps what runs on this machine equal to a directory of manifests: it starts web servers as processes,
replaces those that die or hang, rolls out changes, and balances the load over them.

A manifest is a file *.json in that directory, and can be edited, added and removed at any time:

	{"name": "hello", "replicas": 3, "port": 8001, "message": "Hello."}

Usage: webapp [flags]

`

// Main is the program webapp: its arguments, its output, its exit status. In addition to memory:, it supports the databases
// whose address prefixes are the keys of openers.
func Main(args []string, stdout, stderr io.Writer, openers map[string]Opener) int {
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
	address := flags.String("store", inMemory, "the `address` of the database that keeps the objects and the lease; it begins with\n"+
		strings.Join(schemes(openers), ", "))
	state := flags.String("state", "", "the `directory` of the records of the replicas, and with -store memory: of the lease;\nby default one for these manifests in the cache directory of the user")
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
	if !*demo { // the demo stops by itself, because it has to clean up
		defer onSecondSignal(func() { os.Exit(exitInterrupted) })()
	}
	cfg := Config{Manifests: *manifests, State: *state, Lease: *lease, Out: stdout, Logger: logger}
	err := do(work, *demo, *status, openers, *address, cfg)
	if err == nil && errors.Is(context.Cause(ctx), errNoReader) {
		err = errNoReader
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// do runs the program as the flags ask. In a database, a demo uses its own tables, and a status creates nothing.
func do(ctx context.Context, demo, status bool, openers map[string]Opener, address string, cfg Config) error {
	name, task := "webapp", orchestrate
	switch {
	case demo:
		name, task = "webapp_demo", runDemo
	case status:
		task = printStatus
	}
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	db, closeDB, err := openDatabase(opening, openers, address, name, demo || !status)
	if closeDB != nil {
		defer closeDB()
	}
	if err != nil {
		return err
	}
	cfg.Database = db
	return task(ctx, cfg)
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
func orchestrate(ctx context.Context, cfg Config) (err error) {
	if cfg.State, err = stateDir(cfg.State, cfg.Manifests); err != nil {
		return err
	}
	o, err := New(cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(cfg.Out, "webapp: manifests in %s, state in %s; Ctrl-C stops gracefully, twice at once\n", cfg.Manifests, cfg.State)
	ask := make(chan os.Signal, 1) // receives, from package signal, until Stop; never closed
	notifyStatus(ask)
	defer signal.Stop(ask)
	ended := make(chan error, 1)
	// Runs the orchestrator concurrently with the loop that waits for it.
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

// exitInterrupted is the status of a process that a second signal ends before it has stopped: 128 and SIGINT.
const exitInterrupted = 130

// onSecondSignal calls f when the second signal comes; the first one begins the graceful stop. The returned function unregisters f.
func onSecondSignal(f func()) (release func()) {
	signals := make(chan os.Signal, 2) // receives, from package signal, until Stop; never closed
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var listening sync.WaitGroup
	ended := make(chan struct{})
	// Listens for signals concurrently with the program. It ends when release is called.
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
