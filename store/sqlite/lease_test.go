package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func TestTheFileHoldsLeases(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		path := filepath.Join(t.TempDir(), "x.db")
		leases := func() leaderelect.LeaseStore {
			records, err := store.Open(open(t, path, sqlite.Config{}), "Lease", store.Config[storelease.Record]{})
			require.NoError(t, err)
			s, err := storelease.New(records, storelease.Config{Unfenced: true}) // the suite lowers a term
			require.NoError(t, err)
			return s
		}
		return leasetest.Backend{Store: leases(), Reopen: leases}
	})
}
