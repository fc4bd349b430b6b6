// Package manager has the part of the real package that the tests of the analyzers use.
package manager

import "github.com/setpoint-go/setpoint/leaderelect"

type Config struct{ Election *leaderelect.Elector }

type Manager struct{}

func New(cfg Config, parts ...any) (*Manager, error) { return nil, nil }
