package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Config sets up a [Dir]. Its zero value is usable.
type Config struct {
	// ReadTimeout bounds how long one read may take: of the directory, or of one file. A read that takes longer goes on,
	// since no system call can be interrupted, but no caller waits for it. Defaults to 1s.
	ReadTimeout time.Duration

	// Report is called with each new problem of a file, an [*Error], once: not again before the problem has changed
	// or gone. It is called by List, without locks. Defaults to nothing.
	Report func(error)

	// Recovered is called with the file whose last problem has gone, as Report is; not when the file itself has gone.
	// Defaults to nothing.
	Recovered func(file string)
}

func (c Config) withDefaults() (Config, error) {
	c.ReadTimeout = cmp.Or(c.ReadTimeout, time.Second)
	if c.Report == nil {
		c.Report = func(error) {}
	}
	if c.Recovered == nil {
		c.Recovered = func(string) {}
	}
	return c, c.validate()
}

// validate returns an error that names each field that is out of its bounds.
func (c Config) validate() error {
	var errs []error
	if c.ReadTimeout < 0 {
		errs = append(errs, fmt.Errorf("Config.ReadTimeout is %s, must not be negative", c.ReadTimeout))
	}
	return errors.Join(errs...)
}
