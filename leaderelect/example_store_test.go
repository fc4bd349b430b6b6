package leaderelect_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// logged is a LeaseStore around another one.
type logged struct{ leaderelect.LeaseStore }

func (s logged) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	fmt.Printf("update of %q in term %d\n", e.Key, e.Term)
	return s.LeaseStore.Update(ctx, e)
}

// Your own store has three methods, or wraps another store.
func ExampleLeaseStore() {
	ctx := context.Background()
	s := logged{memlease.New()}
	e, _ := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	_, err := s.Update(ctx, e)
	fmt.Println(err)
	// Output:
	// update of "lease" in term 1
	// <nil>
}

// The term is a separate field, so that a store can compare it with the term of another write.
func ExampleEntry() {
	s := memlease.New()
	e, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease", Value: []byte(`{"holder": "ann"}`), Term: 7})
	fmt.Println(e.Key, string(e.Value), e.Term, e.Version != "", err)
	// Output: lease {"holder": "ann"} 7 true <nil>
}
