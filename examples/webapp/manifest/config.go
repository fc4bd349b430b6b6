package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Config sets up a [Dir]. The zero value is ready for use.
type Config struct {
	// ReadTimeout bounds how long one read of the directory or of a file may take. A slower read continues, because no
	// system call can be interrupted, but no caller waits for it. Defaults to 1s.
	ReadTimeout time.Duration

	// Report is called once with each new problem of a file, an [*Error], and again only after the problem has changed
	// or gone. List calls it, without locks. Optional.
	Report func(error)

	// Recovered is called with a file whose last problem has gone, in the same way as Report, but not if the file itself
	// has gone. Optional.
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
