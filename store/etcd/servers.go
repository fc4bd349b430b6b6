package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/internal/problems"
)

const (
	statusTimeout = 3 * time.Second        // how long Open waits for the first endpoint to answer
	statusGrace   = 300 * time.Millisecond // how long it then waits for the others
)

// checkServers refuses servers whose progress notifications cannot be trusted. At least one endpoint must answer. Endpoints that are down
// are not checked.
func checkServers(ctx context.Context, client *clientv3.Client) error {
	endpoints := client.Endpoints()
	if len(endpoints) == 0 {
		return errors.New("the client has no endpoints")
	}
	type answer struct {
		endpoint, version string
		err               error
	}
	answers := make(chan answer, len(endpoints))
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for _, endpoint := range endpoints {
		go func() { // asks one endpoint; ends with ctx, and is waited for below
			a := answer{endpoint: endpoint}
			res, err := client.Status(ctx, endpoint)
			if a.err = err; err == nil {
				a.version = res.Version
			}
			answers <- a
		}()
	}
	var down []error
	for range endpoints {
		a := <-answers
		if a.err != nil {
			down = append(down, fmt.Errorf("%s: %w", a.endpoint, a.err))
			continue
		}
		if err := checkVersion(a.version); err != nil {
			return fmt.Errorf("%s: %w", a.endpoint, err)
		}
		defer time.AfterFunc(statusGrace, cancel).Stop()
	}
	if len(down) == len(endpoints) {
		return fmt.Errorf("no endpoint answers: %w", problems.Join(down...))
	}
	return nil
}

// checkVersion refuses the versions in which a progress notification may overtake an event, or is never sent to a watch without events
// (etcd-io/etcd#15220, #17507).
func checkVersion(version string) error {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n != 3 {
		return fmt.Errorf("the server says that it is version %q of etcd, which has no known form", version)
	}
	if major < 3 || major == 3 && (minor < 4 || minor == 4 && patch < 31 || minor == 5 && patch < 13) {
		return fmt.Errorf("the server is version %s of etcd, whose watches can report their progress too early; needed is 3.4.31, 3.5.13, 3.6.0, or a later one", version)
	}
	return nil
}
