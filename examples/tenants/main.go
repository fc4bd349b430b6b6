// Command tenants keeps a cloud as a table says: for each row, a bucket, or a bucket, a database, and a DNS entry. Start it as often
// as you like. See README.md; begin to read at reconcile.go.
//
//	go run ./examples/tenants -demo                                        a story on real processes; needs nothing but Go
//	go run ./examples/tenants -fake-cloud localhost:7000                   a cloud to play with, in one terminal
//	go run ./examples/tenants -store sqlite:tenants.db -install            creates the table, and what the program needs
//	go run ./examples/tenants -store sqlite:tenants.db -name a             and in more terminals -name b, -name c
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
)

func main() { os.Exit(program(os.Args[1:], os.Stdout, os.Stderr)) }

// program is the program: its arguments, its output, its exit status.
func program(args []string, stdout, stderr io.Writer) int {
	cfg := config{out: stdout}
	flags := flag.NewFlagSet("tenants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("store", "",
		"the `address` of the database, sqlite:FILE or postgres://...;\ndefaults to sqlite:tenants.db, and of -demo to a temporary file")
	flags.StringVar(&cfg.name, "name", fmt.Sprintf("pid-%d", os.Getpid()), "what this replica is called")
	flags.StringVar(&cfg.cloud, "cloud", "http://localhost:7000", "the `address` of the cloud")
	flags.StringVar(&cfg.listen, "listen", "localhost:0", "where to serve /metrics")
	flags.DurationVar(&cfg.lease, "lease", 15*time.Second, "how long a replica that was killed stays the leader")
	flags.IntVar(&cfg.slots, "slots", 0, "share the tenants among all replicas, in so `many` slots, instead of having a leader")
	flags.Float64Var(&cfg.rate, "rate", budget-1,
		"how many changes a second this replica makes in the cloud;\nthe rest of the limit is for lists")
	flags.BoolVar(&cfg.trace, "trace", false, "print a span of OpenTelemetry for each reconcile")
	flags.DurationVar(&cfg.lookEach, "look-each", 3*time.Second, "how often to look for what has vanished from the cloud")
	installs := flags.Bool("install", false, "create the table, and what the program needs in the database, and end")
	fake := flags.String("fake-cloud", "", "be the cloud, at this `address`, and nothing else")
	tells := flags.Bool("demo", false, "tell a story on real processes, and end")
	tied := flags.Bool("tied", false, "end when standard input ends, as a child of -demo does")
	verbose := flags.Bool("v", false, "log what the library does")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil || flags.NArg() > 0 {
		return 2
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	cfg.log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the first signal stops in order, the second one at once
	if *tied {
		// Ends with standard input, or with the process.
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	var err error
	switch {
	case *tells:
		err = runDemo(ctx, *address, stdout)
	case *fake != "":
		err = cloud.Run(ctx, *fake)
	default:
		err = withDatabase(ctx, cmp.Or(*address, "sqlite:tenants.db"), *installs, func(db *database) error {
			if *installs {
				return nil
			}
			return run(ctx, db, cfg)
		})
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// withDatabase does something with a database.
func withDatabase(ctx context.Context, address string, installs bool, do func(*database) error) error {
	opening, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	db, err := openDatabase(opening, address, installs)
	if err != nil {
		return err
	}
	defer db.close()
	return do(db)
}
