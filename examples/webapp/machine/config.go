package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// recordFD is the descriptor at which a replica finds its record.
const recordFD = 3

// Config sets up a [Machine]. The zero value is ready for use.
type Config struct {
	// Command makes the command that runs a replica, without starting it. The machine sets its standard streams, its
	// extra files and its system attributes; the record is its descriptor 3. The process that it starts must be the
	// replica itself, not a parent of it.
	// Defaults to this executable with the arguments replica -id ID -app APP -message MESSAGE -record 3.
	Command func(Spec) *exec.Cmd

	// Permit is called right before a process is started and before each signal. Its error cancels the action and is
	// returned. A caller that may lose the right to act, such as a leader, checks it here: there is nothing between this
	// check and the action. By default, everything is permitted.
	Permit func(context.Context) error

	// Grace is how long a replica has to end after SIGTERM, before another Stop kills it. Defaults to 3s.
	Grace time.Duration

	// Failures is the number of consecutive failed probes that make a replica Unhealthy. Defaults to 3.
	Failures int

	// Changed is called after a change that this Machine made or noticed, so that a poller can list at once. It is called
	// without locks and may call the Machine. Changes by other processes do not call it. Optional.
	Changed func()

	// Logger receives problems that an operator can act on. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Command == nil {
		program, err := os.Executable() // now: the file may be replaced while we run
		if err != nil {
			return c, fmt.Errorf("default of Command: %w", err)
		}
		c.Command = func(s Spec) *exec.Cmd {
			return exec.Command(program, "replica",
				"-id", s.ID, "-app", s.App, "-message", s.Message, "-record", strconv.Itoa(recordFD))
		}
	}
	if c.Permit == nil {
		c.Permit = func(context.Context) error { return nil }
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Grace = cmp.Or(c.Grace, 3*time.Second)
	c.Failures = cmp.Or(c.Failures, 3)
	return c, c.validate()
}

// validate returns an error that names each field that is out of its bounds.
func (c Config) validate() error {
	var errs []error
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("Config.Grace is %s, must not be negative", c.Grace))
	}
	if c.Failures < 0 {
		errs = append(errs, fmt.Errorf("Config.Failures is %d, must not be negative", c.Failures))
	}
	return errors.Join(errs...)
}
