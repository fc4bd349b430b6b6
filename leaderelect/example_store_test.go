package leaderelect_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Of two who have read the same version of a record, one can replace it.
func ExampleMemoryStore() {
	ctx := context.Background()
	var s leaderelect.LeaseStore = leaderelect.NewMemoryStore()
	first, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("nobody"), Term: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, who := range []string{"ann", "bob"} {
		next := first // both have read this version
		next.Value, next.Term = []byte(who), first.Term+1
		_, err := s.Update(ctx, next)
		fmt.Println(who, "conflict:", errors.Is(err, leaderelect.ErrConflict))
	}
	got, err := s.Get(ctx, "lease")
	fmt.Printf("%s in term %d %v\n", got.Value, got.Term, err)
	// Output:
	// ann conflict: false
	// bob conflict: true
	// ann in term 2 <nil>
}

// logged is a LeaseStore around another one.
type logged struct{ leaderelect.LeaseStore }

func (s logged) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	fmt.Printf("update of %q in term %d\n", e.Key, e.Term)
	return s.LeaseStore.Update(ctx, e)
}

// A store of one's own is three methods, or a wrapper.
func ExampleLeaseStore() {
	ctx := context.Background()
	s := logged{leaderelect.NewMemoryStore()}
	e, _ := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	_, err := s.Update(ctx, e)
	fmt.Println(err)
	// Output:
	// update of "lease" in term 1
	// <nil>
}

// The term stands beside the value, so that a store can compare it with that of another write.
func ExampleEntry() {
	s := leaderelect.NewMemoryStore()
	e, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease", Value: []byte(`{"holder": "ann"}`), Term: 7})
	fmt.Println(e.Key, string(e.Value), e.Term, e.Version != "", err)
	// Output: lease {"holder": "ann"} 7 true <nil>
}
