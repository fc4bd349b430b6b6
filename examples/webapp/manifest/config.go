package manifest

// Config sets up a [Dir]. Its zero value is usable.
type Config struct {
	// Report is called with each new problem of a file, an [*Error], once: not again before the problem has changed
	// or gone. It is called by List, without locks. Defaults to nothing.
	Report func(error)

	// Recovered is called with the file whose last problem has gone, as Report is; not when the file itself has gone.
	// Defaults to nothing.
	Recovered func(file string)
}

func (c Config) withDefaults() Config {
	if c.Report == nil {
		c.Report = func(error) {}
	}
	if c.Recovered == nil {
		c.Recovered = func(string) {}
	}
	return c
}
