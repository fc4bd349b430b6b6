package etcd_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// The server lets only root compact, so a user who may do no more than write has no use for History.
func TestUserNeedsOnlyPermissionForPrefix(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	root, ctx := connect(t, s.addr), t.Context()
	for name, rights := range map[string]func() error{
		"root": func() error { return nil },
		"app": func() error {
			to := clientv3.GetPrefixRangeEnd("setpoint/")
			_, err := root.RoleGrantPermission(ctx, "app", "setpoint/", to, clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
	} {
		_, err := root.RoleAdd(ctx, name)
		require.NoError(t, err)
		require.NoError(t, rights())
		_, err = root.UserAdd(ctx, name, "secret")
		require.NoError(t, err)
		_, err = root.UserGrantRole(ctx, name, name)
		require.NoError(t, err)
	}
	_, err := root.AuthEnable(ctx)
	require.NoError(t, err)
	app := connect(t, s.addr, func(c *clientv3.Config) { c.Username, c.Password = "app", "secret" })
	db, err := etcd.Open(ctx, app, quick)
	require.NoError(t, err)
	r, err := dbtest.Put(ctx, db, "a", "1", backend.Fence{Lease: "shop", Term: 1})
	require.NoError(t, err)
	keys, _ := list(t, db, "app")
	assert.Equal(t, []string{"a"}, keys)
	assert.Len(t, changes(t, db, "app", 0, 1), 1)
	_, err = app.Compact(ctx, int64(r.Version))
	require.ErrorContains(t, err, "permission denied")
}
