package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

func leasesAt(t testing.TB, addr, prefix string) *etcd.Leases {
	t.Helper()
	l, err := etcd.NewLeases(connect(t, addr), etcd.LeasesConfig{Prefix: prefix})
	require.NoError(t, err)
	return l
}

// guardedPut puts a key on a condition.
func guardedPut(ctx context.Context, c *clientv3.Client, key string, guard clientv3.Cmp) error {
	res, err := c.Txn(ctx).If(guard).Then(clientv3.OpPut(key, "")).Commit()
	if err == nil && !res.Succeeded {
		err = etcd.ErrFenced
	}
	return err
}

// leasesOf returns empty leases at an address, through clients of their own.
func leasesOf(t testing.TB, addr string) leasetest.Backend {
	prefix, c := newPrefix(), connect(t, addr)
	leases := leasesAt(t, addr, prefix)
	return leasetest.Backend{
		Store:  leases,
		Reopen: func() leaderelect.LeaseStore { return leasesAt(t, addr, prefix) },
		Delete: func(key string) {
			for _, element := range []string{"records", "terms"} {
				_, err := c.Delete(context.WithoutCancel(t.Context()), prefix+"/"+element+"/"+key)
				require.NoError(t, err)
			}
		},
		Guard: leasetest.Guard{
			Do: func(ctx context.Context, key string, term uint64, _ func()) error {
				return guardedPut(ctx, c, prefix+"/data", leases.GuardTerm(key, term))
			},
			Leading: func(ctx context.Context, _ func()) error {
				guard, err := leases.Guard(ctx)
				if err != nil {
					return err
				}
				// The watch of the elector may end ctx at any moment. The guard has to do without that.
				return guardedPut(context.WithoutCancel(ctx), c, prefix+"/data", guard)
			},
			Refused: etcd.ErrFenced,
			AtOnce:  true,
		},
	}
}

func TestLeasesConformToLeaseStore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	leasetest.Run(t, func(t *testing.T) leasetest.Backend { return leasesOf(t, s.addr) })
}

// brokenLeases are leases that break a promise.
type brokenLeases struct {
	*etcd.Leases
	onGet, onWrite func(e *leaderelect.Entry)
	unconditional  bool // an Update ignores the version
	watch          func(e leaderelect.Entry) (keep bool)
	list           func(all []leaderelect.Entry) []leaderelect.Entry
}

func (b brokenLeases) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	return b.got(b.Leases.Get(ctx, key))
}

func (b brokenLeases) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if b.onWrite != nil {
		b.onWrite(&e)
	}
	return b.got(b.Leases.Create(ctx, e))
}

// got is the result of a call.
func (b brokenLeases) got(e leaderelect.Entry, err error) (leaderelect.Entry, error) {
	if err == nil && b.onGet != nil {
		b.onGet(&e)
	}
	return e, err
}

func (b brokenLeases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if b.onWrite != nil {
		b.onWrite(&e)
	}
	if b.unconditional {
		now, err := b.Leases.Get(ctx, e.Key)
		if err != nil {
			return b.got(b.Leases.Update(ctx, e))
		}
		e.Version = now.Version
	}
	return b.got(b.Leases.Update(ctx, e))
}

func (b brokenLeases) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	all, err := b.Leases.List(ctx, prefix)
	if err == nil && b.list != nil {
		all = b.list(all)
	}
	return all, err
}

func (b brokenLeases) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	if b.watch == nil {
		return b.Leases.Watch(ctx, key)
	}
	return func(yield func(leaderelect.Entry, error) bool) {
		for e, err := range b.Leases.Watch(ctx, key) {
			if err == nil && !b.watch(e) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestSuiteNoticesBrokenLeases(t *testing.T) {
	skipWithRace(t)
	t.Parallel()
	s := startServer(t)
	only := func(break_ func(b *brokenLeases)) func(b *leasetest.Backend) {
		return func(b *leasetest.Backend) {
			broken := brokenLeases{Leases: b.Store.(*etcd.Leases)}
			break_(&broken)
			b.Store = broken
		}
	}
	for _, c := range []struct {
		name, noticed string
		change        func(b *leasetest.Backend)
	}{
		{"an update compares nothing", "an older version is rejected even if the bytes are equal again",
			only(func(b *brokenLeases) { b.unconditional = true })},
		{"a record has one version for each term", "Update makes a new version even of the same bytes",
			only(func(b *brokenLeases) { b.onGet = func(e *leaderelect.Entry) { e.Version = fmt.Sprint(e.Term) } })},
		{"terms are cut to 32 bits", "a term is stored unchanged",
			only(func(b *brokenLeases) { b.onWrite = func(e *leaderelect.Entry) { e.Term &= 1<<32 - 1 } })},
		{"values end at a line", "a value is any bytes, from 0 to 64 KiB",
			only(func(b *brokenLeases) {
				b.onWrite = func(e *leaderelect.Entry) {
					e.Value = slices.Clone(e.Value[:len(strings.SplitN(string(e.Value), "\n", 2)[0])])
				}
			})},
		{"a floor never grows", "a version does not come back after a deletion, and a floor grows",
			only(func(b *brokenLeases) { b.onGet = func(e *leaderelect.Entry) { e.Floor = 1 } })},
		{"a list leaves out its last record", "List returns records as they are",
			only(func(b *brokenLeases) {
				b.list = func(all []leaderelect.Entry) []leaderelect.Entry { return all[:max(len(all), 1)-1] }
			})},
		{"a watch does not begin with the record", "a watch begins with the record as it is",
			func(b *leasetest.Backend) {
				only(func(b *brokenLeases) {
					n := 0
					b.watch = func(leaderelect.Entry) bool { n++; return n != 1 }
				})(b)
			}},
		{"a guard compares only that there is a term", "a guarded write needs the term of the record",
			func(b *leasetest.Backend) {
				b.Guard.Do = func(context.Context, string, uint64, func()) error { return nil }
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := leasetest.Cases()
			i := slices.IndexFunc(all, func(k leasetest.Case) bool { return k.Name == c.noticed })
			require.GreaterOrEqual(t, i, 0, "there is no such case")
			message := dbtest.Failure(t, func(t testing.TB) {
				b := leasesOf(t, s.addr)
				c.change(&b)
				all[i].Run(t, b)
			})
			assert.NotEmpty(t, message)
			t.Log(message)
		})
	}
}

// lead runs f as the work of a leader.
func lead(t testing.TB, leases leaderelect.LeaseStore, key string, f func(ctx context.Context)) {
	t.Helper()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: key, Logger: slog.New(slog.DiscardHandler), ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { f(ctx); return nil },
	})
	require.NoError(t, err)
	if err := elector.RunOnce(t.Context()); !errors.Is(err, leaderelect.ErrLeaseTaken) {
		require.NoError(t, err)
	}
}

func TestGuardOutlivesRenewalsAndNoTakeover(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	prefix, c := newPrefix(), connect(t, s.addr)
	leases := leasesAt(t, s.addr, prefix)
	var late context.Context
	lead(t, leases, "shop", func(ctx context.Context) {
		late = context.WithoutCancel(ctx)
		guard, err := leases.Guard(ctx)
		require.NoError(t, err)
		require.NoError(t, guardedPut(ctx, c, "data", guard))
		e, err := leases.Get(ctx, "shop")
		require.NoError(t, err)
		term, err := c.Get(ctx, prefix+"/terms/shop")
		require.NoError(t, err)
		for range 3 { // renewals
			e, err = leases.Update(ctx, e)
			require.NoError(t, err)
		}
		after, err := c.Get(ctx, prefix+"/terms/shop")
		require.NoError(t, err)
		assert.Equal(t, term.Kvs[0], after.Kvs[0], "a renewal does not write the term")
		require.NoError(t, guardedPut(ctx, c, "data", guard), "a guard from before the renewals")
		e.Term++
		_, err = leases.Update(ctx, e)
		require.NoError(t, err)
		require.ErrorIs(t, guardedPut(late, c, "data", guard), etcd.ErrFenced) // late, because ctx ends as soon as the watch shows the takeover
	})
	_, err := leases.Guard(late)
	require.ErrorIs(t, err, backend.ErrFenced)
	_, err = leases.Guard(t.Context())
	require.EqualError(t, err, "etcd: guard: the context belongs to no leadership")
	require.NotErrorIs(t, err, backend.ErrFenced)

	// If the term key is deleted by hand, nobody writes until the next renewal has written it again.
	_, err = c.Delete(t.Context(), prefix+"/terms/shop")
	require.NoError(t, err)
	e, err := leases.Get(t.Context(), "shop")
	require.NoError(t, err)
	require.ErrorIs(t, guardedPut(t.Context(), c, "data", leases.GuardTerm("shop", e.Term)), etcd.ErrFenced)
	_, err = leases.Update(t.Context(), e)
	require.NoError(t, err)
	require.NoError(t, guardedPut(t.Context(), c, "data", leases.GuardTerm("shop", e.Term)))

	// A key that another program has written is no record, and is never taken.
	_, err = c.Put(t.Context(), prefix+"/records/shop", "no term")
	require.NoError(t, err)
	_, err = leases.Get(t.Context(), "shop")
	require.ErrorContains(t, err, `has no record of a lease`)
	require.NotErrorIs(t, err, leaderelect.ErrNotFound)
	all, err := leases.List(t.Context(), "")
	require.NoError(t, err)
	assert.Empty(t, all)
}

func TestLeasesNeedPermission(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	root := connect(t, s.addr)
	grant(t, root, "root", "", "")
	grant(t, root, "app", "leases/", clientv3.GetPrefixRangeEnd("leases/")) // to read only
	_, err := root.AuthEnable(t.Context())
	require.NoError(t, err)
	leases, err := etcd.NewLeases(connect(t, s.addr, asUser("app")), etcd.LeasesConfig{})
	require.NoError(t, err)
	_, err = leases.Get(t.Context(), "shop")
	require.ErrorIs(t, err, leaderelect.ErrNotFound)
	_, err = leases.Create(t.Context(), leaderelect.Entry{Key: "shop", Term: 1})
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	assert.True(t, retry.IsPermanent(err))
	require.ErrorContains(t, err, `the user of the client needs read and write permission for the range "leases/"`)
}

func TestNewLeasesRefusesBadPrefix(t *testing.T) {
	c := connect(t, "127.0.0.1:1")
	for prefix, want := range map[string]string{
		"a/":         `etcd: new leases: LeasesConfig.Prefix is "a/", must not end with a slash`,
		"a/records":  `etcd: new leases: LeasesConfig.Prefix is "a/records", must not have the element records`,
		"terms/shop": `etcd: new leases: LeasesConfig.Prefix is "terms/shop", must not have the element terms`,
	} {
		_, err := etcd.NewLeases(c, etcd.LeasesConfig{Prefix: prefix})
		require.EqualError(t, err, want)
	}
	assert.Panics(t, func() { _, _ = etcd.NewLeases(nil, etcd.LeasesConfig{}) })
}
