package poll_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
		if err != nil {
			t.Fatal(err)
		}
		if want := ([]site{{Name: "a", Rev: 1}, {Name: "c", Rev: 1}}); !slices.Equal(list.Items, want) {
			t.Errorf("list.Items = %v, want %v", list.Items, want)
		}
		got := errs.Take()
		if len(got) != 1 {
			t.Fatalf("len(got) = %d, want 1: %v", len(got), got)
		}
		if got, want := fmt.Sprint(got[0]), "poll: object b: half written"; got != want {
			t.Errorf("got[0] = %q, want %q", got, want)
		}

		events := sitetest.Watch(t, t.Context(), p, list.Version)
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "b", Rev: -1}, site{Name: "c", Rev: 2})
		time.Sleep(time.Second)
		if got, want := sitetest.All(events), ([]string{"3 Modified c.2"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(events) = %q, want %q", got, want)
		}
		got = errs.Take()
		if len(got) != 1 {
			t.Fatalf("len(got) = %d, want 1: %v", len(got), got)
		}
		if got, want := fmt.Sprint(got[0]), "poll: object a: half written\nobject b: half written"; got != want {
			t.Errorf("got[0] = %q, want %q", got, want)
		}
		list, err = p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := ([]site{{Name: "a", Rev: 1}, {Name: "c", Rev: 2}}); !slices.Equal(list.Items, want) {
			t.Errorf("the last valid state: list.Items = %v, want %v", list.Items, want)
		}

		b.set(nil, site{Name: "a", Rev: 3}, site{Name: "b", Rev: 4})
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"3 Bookmark .0", "4 Modified a.3", "5 Added b.4", "6 Deleted c.2"}, sitetest.All(events)); diff != "" {
			t.Errorf("sitetest.All(events) mismatch (-want +got):\n%s", diff)
		}
		errs.Take()
		b.set(nil, site{Name: "a", Rev: -1})
		time.Sleep(time.Second)
		sitetest.All(events)
		b.set(nil)
		time.Sleep(time.Second)
		if got, want := sitetest.All(events), ([]string{"8 Deleted a.3"}); !slices.Equal(got, want) {
			t.Errorf("an invalid object can be deleted: sitetest.All(events) = %q, want %q", got, want)
		}
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
		if got := sitetest.All(events); len(got) != 3 {
			t.Errorf("len(sitetest.All(events)) = %d, want 3: %v", len(got), got)
		}
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "b", Rev: 13}, site{Name: "c", Rev: 2})
		time.Sleep(time.Second)
		if got, want := sitetest.All(events), ([]string{"4 Modified c.2"}); !slices.Equal(got, want) {
			t.Errorf("sitetest.All(events) = %q, want %q", got, want)
		}
		if got, want := fmt.Sprint(errs.Take()[0]), "poll: object a: wait: recover from panic: valid\nobject b: wait: recover from panic: equal"; got != want {
			t.Errorf("errs.Take()[0] = %q, want %q", got, want)
		}
	})
}

func TestDuplicateInvalidObjectFailsList(t *testing.T) {
	var b table
	p := must(poll.New(b.list, nameOf, poll.Config[site]{Valid: valid, OnError: func(error) {}}))
	for _, second := range []int{-1, 1} {
		b.set(nil, site{Name: "a", Rev: -1}, site{Name: "a", Rev: second})
		_, err := p.List(t.Context())
		if got, want := fmt.Sprint(err), "poll: list: key a is in the list twice"; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
	}
}

func TestOnErrorMayListForInvalidObject(t *testing.T) {
	var b table
	var p *poll.Source[string, site]
	calls := 0
	p = must(poll.New(b.list, nameOf, poll.Config[site]{Valid: valid, OnError: func(error) {
		if calls++; calls == 1 {
			_, err := p.List(t.Context())
			if err != nil {
				t.Error(err)
			}
		}
	}}))
	b.set(nil, site{Name: "a", Rev: -1})
	_, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Errorf("calls = %v, want 2", calls)
	}
}
