package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func TestFileHoldsLeases(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		path := filepath.Join(looptest.MemoryDir(t), "x.db")
		leases := func() leaderelect.LeaseStore { return dbtest.Leases(t, open(t, path, sqlite.Config{})) }
		other := open(t, path, sqlite.Config{})
		return leasetest.Backend{Store: leases(), Reopen: leases, Lock: func() func() {
			tx, err := other.DB().BeginTx(t.Context(), nil)
			require.NoError(t, err)
			return func() { assert.NoError(t, tx.Rollback()) }
		}}
	})
}
