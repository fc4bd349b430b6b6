package leasetest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// writes is the number of writes in which the suite looks for a repeated version.
const writes = 200

var registerCases = []testCase{
	{"a record that was never created is not found", func(t testing.TB, b Backend) {
		s := b.Store
		absent(t, s, key)
		absent(t, s, "")
	}},

	{"a record that was created is there", func(t testing.TB, b Backend) {
		s := b.Store
		holds(t, s, create(t, s, entry("a")))
	}},

	{"the version given to Create and the floor given to a write do not matter", func(t testing.TB, b Backend) {
		const given = math.MaxInt64
		e := entry("a")
		e.Version, e.Floor = "given", given
		created, err := b.Store.Create(context.Background(), e)
		if err != nil {
			t.Fatalf("Create with a version and a floor: %v", err)
		}
		if created.Version == e.Version {
			t.Fatalf("Create with version %q returns that version, which may have been used before", e.Version)
		}
		e = created
		e.Floor = given
		updated, err := b.Store.Update(context.Background(), e)
		if err != nil {
			t.Fatalf("Update with a floor: %v", err)
		}
		if created.Floor >= given || updated.Floor >= given {
			t.Fatalf("writes with floor %d return the floors %d and %d", uint64(given), created.Floor, updated.Floor)
		}
		holds(t, b.Store, updated)
	}},

	{"Create does not replace a record", func(t testing.TB, b Backend) {
		s := b.Store
		have := create(t, s, entry("a"))
		for _, e := range []leaderelect.Entry{entry("b"), have} {
			_, err := s.Create(context.Background(), e)
			conflict(t, "Create of a record that exists", err)
			holds(t, s, have)
		}
	}},

	{"Create does not replace a record that is empty", func(t testing.TB, b Backend) {
		have := create(t, b.Store, leaderelect.Entry{Key: key})
		_, err := b.Store.Create(context.Background(), entry("b"))
		conflict(t, "Create of a record without a value and a term", err)
		holds(t, b.Store, have)
	}},

	{"Update does not create a record", func(t testing.TB, b Backend) {
		s := b.Store
		other := entry("a")
		other.Key = "other"
		for _, version := range []string{"", "1", create(t, s, other).Version} {
			e := entry("b")
			e.Version = version
			_, err := s.Update(context.Background(), e)
			conflict(t, "Update of a record that does not exist", err)
			absent(t, s, key)
		}
	}},

	{"Update does not replace another version", func(t testing.TB, b Backend) {
		s := b.Store
		have := create(t, s, entry("a"))
		for _, version := range []string{"", "no version", have.Version + "0", "0" + have.Version, " " + have.Version} {
			e := entry("b")
			e.Version = version
			_, err := s.Update(context.Background(), e)
			conflict(t, fmt.Sprintf("Update of version %q", version), err)
			holds(t, s, have)
		}
	}},

	{"Update makes a new version even of the same bytes", func(t testing.TB, b Backend) {
		s := b.Store
		first := create(t, s, entry("a"))
		second := update(t, s, first, "a")
		holds(t, s, second)
		_, err := s.Update(context.Background(), first)
		conflict(t, "Update of the version before the last", err)
	}},

	{"an older version is rejected even if the bytes are equal again", func(t testing.TB, b Backend) {
		s := b.Store
		first := create(t, s, entry("a"))
		second := update(t, s, first, "b")
		third := update(t, s, second, "a")
		for _, old := range []leaderelect.Entry{first, second} {
			_, err := s.Update(context.Background(), old)
			conflict(t, "Update of an old version", err)
		}
		holds(t, s, third)
	}},

	{"an older version is rejected even if the term is greater", func(t testing.TB, b Backend) {
		s := b.Store
		first := create(t, s, entry("a"))
		second := update(t, s, first, "b")
		first.Term = 7
		_, err := s.Update(context.Background(), first)
		conflict(t, "Update of an old version with a greater term", err)
		holds(t, s, second)
	}},

	{"a version never comes back", func(t testing.TB, b Backend) {
		s := b.Store
		e := create(t, s, entry("a"))
		seen := map[string]bool{e.Version: true}
		handles := []leaderelect.LeaseStore{s, b.reopen(), s, b.reopen()}
		for i := range writes {
			e = update(t, handles[i%len(handles)], e, "a")
			if seen[e.Version] {
				t.Fatalf("version %q is used twice", e.Version)
			}
			seen[e.Version] = true
		}
	}},

	{"another handle has the same records", func(t testing.TB, b Backend) {
		s := b.Store
		if b.Reopen == nil {
			t.Skip("the backend has no Reopen")
		}
		first := create(t, s, entry("a"))
		reaches(t, b.Reopen(), first)
		second := update(t, b.Reopen(), first, "b")
		reaches(t, s, second)
		_, err := b.Reopen().Create(context.Background(), entry("c"))
		conflict(t, "Create through another handle", err)
		_, err = b.Reopen().Update(context.Background(), first)
		conflict(t, "Update of an old version through another handle", err)
		reaches(t, b.Reopen(), second)
	}},
}
