package replica

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// recordCheck is how often a replica checks whether its record still exists.
const recordCheck = 100 * time.Millisecond

// drainTimeout bounds how long a replica that was told to stop waits for the requests in flight.
const drainTimeout = 2 * time.Second

// Main runs a replica until SIGTERM or SIGINT and returns the exit status: 0 after a signal, 1 after a failure, 2 if
// the arguments are wrong. The arguments are those after "replica":
//
//	-id ID        its name, required
//	-app APP      the app that it is a part of
//	-message TEXT the text that GET / returns
//	-record FD    the open, inherited record file; none by default
//
// It logs to standard error.
func Main(args []string) int {
	flags := flag.NewFlagSet("replica", flag.ContinueOnError)
	id := flags.String("id", "", "the name of this replica")
	app := flags.String("app", "", "the app that it is a part of")
	message := flags.String("message", "", "what GET / answers")
	record := flags.Int("record", -1, "the file descriptor of the record; below 0 for none")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *id == "" || flags.NArg() > 0 {
		fmt.Fprintln(flags.Output(), "usage: replica -id ID [-app APP] [-message TEXT] [-record FD]")
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("app", *app, "id", *id, "pid", os.Getpid())
	if err := run(ctx, *record, newHandler(*id, *app, *message), drainTimeout, logger); err != nil {
		logger.Error("replica failed", "error", err)
		return 1
	}
	return 0
}

// run serves until ctx ends or the record is gone, and then finishes within drain. The record stays open, and its lock
// held, until run returns; the process exits right after that.
func run(ctx context.Context, fd int, handler http.Handler, drain time.Duration, logger *slog.Logger) error {
	var record *os.File
	if fd >= 0 {
		record = os.NewFile(uintptr(fd), "record")
		defer record.Close()
		if err := claim(record); err != nil {
			return fmt.Errorf("replica: lock record: %w", err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("replica: listen: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if record != nil {
		// One write of a whole line: a reader sees all of it or none.
		if _, err := fmt.Fprintf(record, "{\"pid\":%d,\"port\":%d}\n", os.Getpid(), port); err != nil {
			return errors.Join(fmt.Errorf("replica: write record: %w", err), listener.Close())
		}
	}
	logger.Info("replica listens", "port", port)

	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	// Serve blocks, and so does the wait for ctx. Shutdown or Close below ends it; run receives its result.
	go func() { served <- server.Serve(listener) }()
	if err := untilStop(ctx, record, served); err != nil {
		return fmt.Errorf("replica: serve: %w", err)
	}

	logger.Info("replica stops")
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(draining); err != nil {
		logger.Warn("replica cut its last connections", "error", errors.Join(err, server.Close()))
	}
	<-served
	return nil
}

// untilStop waits until ctx ends or the record, if there is one, is gone. If an error comes from served first, it
// returns that.
func untilStop(ctx context.Context, record *os.File, served <-chan error) error {
	look := time.NewTicker(recordCheck)
	defer look.Stop()
	for {
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
			return nil
		case <-look.C:
			if record != nil && removed(record) {
				return nil
			}
		}
	}
}

// newHandler returns the handler of a replica.
func newHandler(id, app, message string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, id+"\n") // the server ignores clients that have gone
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // a request is in flight until it was read completely
			return
		}
		_, _ = fmt.Fprintf(w, "%s\napp=%s id=%s pid=%d\n", message, app, id, os.Getpid())
	})
	return mux
}
