// Package poll is a helper in the same module.
package poll

import (
	"os"
	"time"
)

// Ready waits.
func Ready() bool {
	time.Sleep(time.Second)
	return true
}

// Save writes a file.
func Save(name string) error { return os.WriteFile(name, nil, 0o600) }

// Machine runs programs.
type Machine struct{}

func (*Machine) Stop(name string) error {
	time.Sleep(time.Second)
	return nil
}

func (*Machine) Check(name string) error { return nil }
