package claim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

func FuzzEachLeaseHasText(f *testing.F) {
	for _, lease := range []string{"shop", "größe", " ", "a,b", "100%", "\x00\xff\x7f", strings.Repeat("%", backend.MaxKey)} {
		f.Add(lease, uint64(7))
	}
	f.Fuzz(func(t *testing.T, lease string, term uint64) {
		want := store.Fence{Lease: lease, Term: term}
		l, n := claim.Text(want)
		for i := range len(l) {
			require.True(t, l[i] > ' ' && l[i] < 0x7f && l[i] != ',', "%q", l)
		}
		have, found, err := claim.Parse([]string{l}, []string{n})
		if lease == "" || len(lease) > backend.MaxKey {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, have)
	})
}

func FuzzParse(f *testing.F) {
	f.Add("shop", "7")
	f.Add("%6", "18446744073709551616")
	f.Add("a%2Cb,c", "+1")
	f.Fuzz(func(t *testing.T, lease, term string) {
		have, found, err := claim.Parse([]string{lease}, []string{term})
		require.Equal(t, err == nil, found)
		if err != nil {
			return
		}
		l, n := claim.Text(have)
		again, _, err := claim.Parse([]string{l}, []string{n})
		require.NoError(t, err)
		require.Equal(t, have, again)
	})
}

func TestBoundContextEndsWithLeadershipOrParent(t *testing.T) {
	own := errors.New("own")
	for name, x := range map[string]struct {
		end  func(depose func(error), cancel context.CancelCauseFunc, b *claim.Bound)
		want error
	}{
		"leadership": {func(depose func(error), _ context.CancelCauseFunc, _ *claim.Bound) { depose(leaderelect.ErrLeaseTaken) }, leaderelect.ErrLeaseTaken},
		"parent":     {func(_ func(error), cancel context.CancelCauseFunc, _ *claim.Bound) { cancel(own) }, own},
		"release":    {func(_ func(error), _ context.CancelCauseFunc, b *claim.Bound) { b.Release() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
				defer depose(nil)
				l, _ := leaderelect.FromContext(work)
				parent, cancel := context.WithCancelCause(l.NewContext(t.Context()))
				defer cancel(nil)
				c, ok := claim.Of(parent)
				require.True(t, ok)
				b := c.Bind(parent)
				synctest.Wait()
				require.NoError(t, b.Context().Err())
				x.end(depose, cancel, b)
				synctest.Wait()
				require.Equal(t, x.want, context.Cause(b.Context()))
			})
		})
	}
}

func TestContextOfStreamEndsWithTerm(t *testing.T) {
	g := claim.NewGuards(1)
	a, no := g.Admit(claim.Request{Lease: []string{"shop"}, Term: []string{"7"}})
	require.Nil(t, no)
	require.Nil(t, a.DoUntilStale(t.Context(), func(ctx context.Context) {
		require.Nil(t, a.Stale(ctx))
		require.NoError(t, g.Of("shop").Raise(8))
		<-ctx.Done()
		require.Equal(t, &claim.Refusal{Reason: claim.Stale, Err: &fence.StaleError{Lease: "shop", Term: 7, Have: 8}}, a.Stale(ctx))
		f, _ := store.FenceFrom(ctx)
		require.Equal(t, store.Fence{Lease: "shop", Term: 7}, f)
	}))
	require.Equal(t, claim.Stale, a.Do(t.Context(), func(context.Context) { t.Error("it begins") }).Reason)

	read, no := g.Admit(claim.Request{Lease: []string{"shop"}, Term: []string{"8"}, Safe: true})
	require.Nil(t, no)
	require.Nil(t, read.DoUntilStale(t.Context(), func(ctx context.Context) {
		require.NoError(t, g.Of("shop").Do(t.Context(), 9, func(context.Context) error { return nil }), "a read delays nobody")
		assert.NoError(t, ctx.Err())
	}))
}
