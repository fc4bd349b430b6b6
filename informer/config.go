package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Config holds what an [Informer] may be told. Its zero value is ready for use.
type Config struct {
	// Name names the informer in errors and logs. Defaults to the type of its objects.
	Name string

	// ResyncPeriod is the time after which every object of the cache is given to every handler again, as an update from
	// itself to itself. It makes up for handlers that lose what they are told. Defaults to 0, which is never; negative is
	// never, too.
	ResyncPeriod time.Duration

	// Backoff is the delay between attempts after an error of the source. It starts anew after a list or an event that
	// succeeded. Defaults to 800 ms, doubled each time up to 30 s, each with up to as much again at random. Its Steps are
	// not looked at: an informer does not give up.
	Backoff wait.Backoff

	// OnError is told what goes wrong: lists and watches that failed, panics of handlers as a [*wait.PanicError]. The
	// informer goes on by itself in every case. It is called from several goroutines at once, without locks, holds up the
	// one that calls it, and must not panic. Defaults to a line in the log at level Warn.
	OnError func(error)

	// Logger receives what nobody else does. Defaults to slog.Default().
	Logger *slog.Logger
}

// withDefaults returns cfg with every field set, for an informer of T.
func withDefaults[T any](cfg Config) Config {
	cfg.Name = cmp.Or(cfg.Name, reflect.TypeFor[T]().String())
	if cfg.Backoff.IsZero() {
		cfg.Backoff = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 30 * time.Second}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Logger = cfg.Logger.With("informer", cfg.Name)
	if cfg.OnError == nil {
		cfg.OnError = warn(cfg.Logger)
	}
	return cfg
}

// validate returns an error that names each field that is out of its bounds.
func (cfg Config) validate() error {
	if !cfg.Backoff.IsZero() && cfg.Backoff.Duration <= 0 {
		// The source would be asked again and again without a pause.
		return fmt.Errorf("Config.Backoff.Duration is %v, must be positive if another field of Config.Backoff is set", cfg.Backoff.Duration)
	}
	return nil
}

// warn returns an OnError that writes to log.
func warn(log *slog.Logger) func(error) {
	return func(err error) {
		attrs := []slog.Attr{slog.Any("err", err)}
		if crash := (*wait.PanicError)(nil); errors.As(err, &crash) {
			attrs = append(attrs, slog.String("stack", string(crash.Stack)))
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "informer goes on after an error", attrs...)
	}
}
