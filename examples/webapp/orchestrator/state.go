package orchestrator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
)

// stateDir returns the state directory: the given one, or one that is the same for each copy of this user with these
// manifests.
func stateDir(dir, manifests string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	path, err := filepath.Abs(manifests)
	if err != nil {
		return "", fmt.Errorf("webapp: find the manifests: %w", err)
	}
	home, err := os.UserCacheDir() // not the temporary directory, where another user could create it first
	if err != nil {
		return "", fmt.Errorf("webapp: choose a state directory: %w; give one with -state", err)
	}
	return filepath.Join(home, "setpoint-webapp", fmt.Sprintf("%x", sha256.Sum256([]byte(path)))[:8]), nil
}

// openState creates the state directory, if it does not exist, and checks that no other user can write to it: its
// content decides which processes receive signals.
func openState(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("webapp: make the state directory: %w; give another with -state", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("webapp: open the state directory: %w", err)
	}
	if !mine(info) {
		return fmt.Errorf("webapp: the state directory %s belongs to another user; give another with -state", dir)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("webapp: others may write to the state directory %s; chmod go-w it, or give another with -state", dir)
	}
	return nil
}

// leases is the lease in the state directory. If the directory is removed, the next lease recreates it.
type leases struct {
	*filelease.Store
	state string
}

func leaseDir(state string) string { return filepath.Join(state, "lease") }

func openLeases(state string) (leases, error) {
	if err := openState(state); err != nil {
		return leases{}, err
	}
	files, err := filelease.New(leaseDir(state))
	return leases{files, state}, err
}

// Create creates the lease, and the directory if it is gone.
func (l leases) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if _, err := openLeases(l.state); err != nil {
		return e, err
	}
	return l.Store.Create(ctx, e)
}
