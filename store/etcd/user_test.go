package etcd_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// The server lets only root compact, so a user who may do no more than write cannot have a History.
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

	kept := quick
	kept.History = 100
	_, err = etcd.Open(ctx, app, kept)
	require.ErrorContains(t, err, `etcd: open prefix "setpoint": Config.History is 100, but the user may not compact: `)
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	kept.Existing = true // it only reads
	_, err = etcd.Open(ctx, app, kept)
	require.NoError(t, err)
	kept.Existing = false
	_, err = etcd.Open(ctx, connect(t, s.addr, func(c *clientv3.Config) { c.Username, c.Password = "root", "secret" }), kept)
	require.NoError(t, err)
}
