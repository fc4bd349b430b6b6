package balancer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config sets up a [Balancer] or a [Set]. The zero value is ready for use.
type Config struct {
	_ [0]func()

	// DialTimeout bounds one attempt to reach a backend. Defaults to 500ms.
	DialTimeout time.Duration

	// Host is the address on which a Set listens; Listen ignores it. Defaults to 127.0.0.1.
	Host string

	// Drain bounds how long the connections of a balancer that a Set has removed, or moved to another port, may
	// continue; Listen ignores it. Defaults to 5s.
	Drain time.Duration

	// Logger receives errors of connections. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	c.DialTimeout = cmp.Or(c.DialTimeout, 500*time.Millisecond)
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	c.Drain = cmp.Or(c.Drain, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, c.validate()
}

// validate returns an error that names each field that is out of its bounds.
func (c Config) validate() error {
	var errs []error
	if c.DialTimeout < 0 {
		errs = append(errs, fmt.Errorf("Config.DialTimeout is %s, must not be negative", c.DialTimeout))
	}
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("Config.Drain is %s, must not be negative", c.Drain))
	}
	return errors.Join(errs...)
}
