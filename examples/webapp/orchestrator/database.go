package orchestrator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	inMemory    = "memory:" // the address of the memory of this process
	openTimeout = 10 * time.Second
)

// Opener opens the database at an address, as the user has passed it to -store, and returns a function that closes it. The name,
// of lower-case letters and underscores, is for its tables or their equivalent: one database may hold the data of several names,
// which do not see each other. Unless create is true, an Opener creates nothing, and returns an error that names what is
// missing. The context is only for this call. Unless closeDB is nil, it is called at the end, even after an error.
type Opener func(ctx context.Context, address, name string, create bool) (db backend.Backend, closeDB func(), err error)

// openDatabase opens the database at an address. For memory, it returns nil.
func openDatabase(
	ctx context.Context, openers map[string]Opener, address, name string, create bool,
) (backend.Backend, func(), error) {
	if address == inMemory {
		return nil, nil, nil
	}
	scheme, _, _ := strings.Cut(address, ":")
	open, ok := openers[scheme]
	switch {
	case ok:
		return open(ctx, address, name, create)
	case len(openers) == 0:
		return nil, nil, fmt.Errorf("webapp: open -store %q: this program has no databases, but go run ./examples/webapp/stores does", address)
	}
	return nil, nil, fmt.Errorf("webapp: open -store %q: it begins with none of %s", address, strings.Join(schemes(openers), ", "))
}

// schemes returns the valid prefixes of an address.
func schemes(openers map[string]Opener) []string {
	known := []string{inMemory}
	for _, scheme := range slices.Sorted(maps.Keys(openers)) {
		known = append(known, scheme+":")
	}
	return known
}

// openShared opens the shared state of the copies of the program: the objects, unless they are in memory, and the lease.
func openShared(cfg Config) (backend.Backend, leaderelect.LeaseStore, error) {
	if cfg.Database != nil {
		leases, err := leasesIn(cfg.Database)
		return cfg.Database, leases, err
	}
	leases, err := openLeases(cfg.State)
	if err != nil {
		return nil, nil, err
	}
	return store.NewMemory(store.MemoryConfig{}), leases, nil
}

// leasesIn returns the leases in the same database as the objects. A takeover fences the database: from then on it refuses
// writes of the former leader.
func leasesIn(db backend.Backend) (leaderelect.LeaseStore, error) {
	records, err := store.Open(db, "Lease", store.Config[storelease.Record]{})
	if err != nil {
		return nil, err
	}
	return storelease.New(records, storelease.Config{}), nil
}
