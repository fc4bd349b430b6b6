package leasetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
)

var listCases = []testCase{
	{"List returns the records whose keys begin with a prefix, in order", func(t testing.TB, b Backend) {
		l := needsLister(t, b)
		listed(t, l, "", nil)
		listed(t, l, "a", nil)
		have := make(map[string]leaderelect.Entry)
		for _, k := range oddKeys {
			have[k] = create(t, b.Store, leaderelect.Entry{Key: k, Value: []byte("of " + k), Term: 7})
		}
		prefixes := append([]string{"b", "a%2", "a\x00", "\xff", "\xc3", "日", "\xe6\x97", "kkkk"}, oddKeys...)
		for _, prefix := range prefixes {
			listed(t, l, prefix, have)
		}
	}},

	{"List returns records as they are", func(t testing.TB, b Backend) {
		l := needsLister(t, b)
		have := createMany(t, b.Store, 1030, func(i int) leaderelect.Entry {
			return leaderelect.Entry{Key: "slot/" + strconv.Itoa(i), Term: uint64(i)}
		})
		for i := range 20 {
			k := "slot/" + strconv.Itoa(7*i)
			have[k] = update(t, b.Store, have[k], "again")
			listed(t, l, k, have)
		}
		listed(t, l, "slot/", have)
	}},

	{"List is as recent as Get", func(t testing.TB, b Backend) {
		l, other := needsLister(t, b), b.reopen()
		have := map[string]leaderelect.Entry{key: create(t, b.Store, entry("0"))}
		listed(t, l, "", have)
		for i := range 10 {
			have[key] = update(t, other, have[key], strconv.Itoa(i+1))
			reaches(t, b.Store, have[key])
			listed(t, l, "", have)
		}
	}},

	{"Get is as recent as List", func(t testing.TB, b Backend) {
		l, other := needsLister(t, b), b.reopen()
		have := create(t, b.Store, entry("0"))
		holds(t, b.Store, have)
		for i := range 10 {
			have = update(t, other, have, strconv.Itoa(i+1))
			errLate := errors.New("it returns an earlier record")
			eventually(t, "List of a write through another handle", func(ctx context.Context) error {
				list, err := l.List(ctx, key)
				if err == nil && (len(list) != 1 || list[0].Version != have.Version) {
					err = errLate
				}
				return err
			})
			holds(t, b.Store, have)
		}
	}},

	{"List returns when its context ends", func(t testing.TB, b Backend) {
		l := needsLister(t, b)
		create(t, b.Store, entry("a"))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := l.List(ctx, ""); err == nil {
			t.Fatalf("List with a context that has ended succeeds")
		}
	}},
}

// lister is shard.Lister, which a sibling package declares.
type lister interface {
	List(ctx context.Context, prefix string) ([]leaderelect.Entry, error)
}

// needsLister returns the store as a lister, or skips the case.
func needsLister(t testing.TB, b Backend) lister {
	t.Helper()
	l, ok := b.Store.(lister)
	if !ok {
		t.Skip("the store does not implement Lister")
	}
	return l
}

// listed requires that List of a prefix returns the entries of have with that prefix.
func listed(t testing.TB, l lister, prefix string, have map[string]leaderelect.Entry) {
	t.Helper()
	got, err := l.List(context.Background(), prefix)
	if err != nil {
		t.Fatalf("List of %q: %v", prefix, err)
	}
	var want []string
	for k := range have {
		if strings.HasPrefix(k, prefix) {
			want = append(want, k)
		}
	}
	slices.Sort(want)
	var keys []string
	for _, e := range got {
		keys = append(keys, e.Key)
	}
	if !slices.Equal(keys, want) {
		t.Fatalf("List of %.40q returns the keys %.300q, want %.300q", prefix, keys, want)
	}
	for _, e := range got {
		is(t, "List", e, have[e.Key])
	}
}
