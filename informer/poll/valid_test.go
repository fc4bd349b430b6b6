package poll_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/informer/poll"
)

// valid refuses sites of a negative revision.
func valid(s site) error {
	if s.Rev < 0 {
		return errors.New("half written")
	}
	return nil
}

func TestInvalidObjectKeepsLastValidState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		var errs sitetest.Errors
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, Valid: valid, OnError: errs.Add}))
		b.set(nil, site{Name: "a", Rev: 1}, site{Name: "b", Rev: -1}, site{Name: "c", Rev: 1})
		list, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []site{{Name: "a", Rev: 1}, {Name: "c", Rev: 1}}, list.Items)
		got := errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "poll: object b: half written")

		events := sitetest.Watch(t, t.Context(), p, list.Version)
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "b", Rev: -1}, site{Name: "c", Rev: 2})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"3 Modified c.2"}, sitetest.All(events))
		got = errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "poll: object a: half written; object b: half written")
		list, err = p.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []site{{Name: "a", Rev: 1}, {Name: "c", Rev: 2}}, list.Items, "the last valid state")

		b.set(nil, site{Name: "a", Rev: 3}, site{Name: "b", Rev: 4})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"3 Bookmark .0", "4 Modified a.3", "5 Added b.4", "6 Deleted c.2"}, sitetest.All(events))
		errs.Take()
		b.set(nil, site{Name: "a", Rev: -1})
		time.Sleep(time.Second)
		sitetest.All(events)
		b.set(nil)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"8 Deleted a.3"}, sitetest.All(events), "an invalid object can be deleted")
	})
}

func TestPanickingValidOrEqualAffectsOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b table
		var errs sitetest.Errors
		p := must(poll.New(b.list, nameOf, poll.Config[site]{Jitter: -1, OnError: errs.Add,
			Valid: func(s site) error {
				if s.Rev < 0 {
					panic("valid")
				}
				return nil
			},
			Equal: func(a, b site) bool {
				if b.Rev == 13 {
					panic("equal")
				}
				return a == b
			}}))
		b.set(nil, site{Name: "a", Rev: 1}, site{Name: "b", Rev: 1}, site{Name: "c", Rev: 1})
		events := sitetest.Watch(t, t.Context(), p, 0)
		assert.Len(t, sitetest.All(events), 3)
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "b", Rev: 13}, site{Name: "c", Rev: 2})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"4 Modified c.2"}, sitetest.All(events))
		assert.EqualError(t, errs.Take()[0], "poll: object a: panic: valid; object b: panic: equal")
	})
}

func TestDuplicateInvalidObjectFailsList(t *testing.T) {
	var b table
	p := must(poll.New(b.list, nameOf, poll.Config[site]{Valid: valid, OnError: func(error) {}}))
	for _, second := range []int{-1, 1} {
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "a", Rev: second})
		_, err := p.List(t.Context())
		assert.EqualError(t, err, "poll: list: key a is in the list twice")
	}
}

func TestOnErrorMayListForInvalidObject(t *testing.T) {
	var b table
	var p *poll.Source[string, site]
	calls := 0
	p = must(poll.New(b.list, nameOf, poll.Config[site]{Valid: valid, OnError: func(error) {
		if calls++; calls == 1 {
			_, err := p.List(t.Context())
			assert.NoError(t, err)
		}
	}}))
	b.set(nil, site{Name: "a", Rev: -1})
	_, err := p.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, calls)
}
