package interceptor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// Machine is what the examples store.
type Machine struct{ Disk string }

func machines() *interceptor.Store[Machine] {
	db := store.NewMemory(store.MemoryConfig{})
	memory, err := store.Open[Machine](db, "machine", store.Config[Machine]{})
	if err != nil {
		panic(err)
	}
	return interceptor.New[Machine](memory)
}

// The reply to a write is lost: the writer cannot know whether it was applied, and finds out when it repeats the write.
func ExampleStore() {
	ctx := context.Background()
	s := machines()
	lost := s.Inject(interceptor.Rule{Op: "create", Key: "m1", Fault: interceptor.LoseReply()})

	for range 2 {
		_, err := s.Create(ctx, store.Object[Machine]{Key: "m1"})
		fmt.Println(err)
	}
	list, _ := s.List(ctx)
	fmt.Println(len(list.Items), "machine, at version", list.Version, "- replies lost:", lost.Hits())
	// Output:
	// store: create machine "m1": the connection was lost, the outcome is unknown
	// store: create machine "m1": object already exists
	// 1 machine, at version 1 - replies lost: 1
}

// The third read of one object fails, and no other.
func ExampleRule() {
	s := machines()
	_, _ = s.Create(context.Background(), store.Object[Machine]{Key: "m1"})
	s.Inject(interceptor.Rule{Op: "get", Key: "m1", Nth: 3, Fault: interceptor.Fail(errors.New("too many requests"))})
	for range 4 {
		_, err := s.Get(context.Background(), "m1")
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// store: get machine "m1": too many requests
	// <nil>
}

// Somebody else is faster, between the read and the write.
func ExampleFault() {
	ctx := context.Background()
	s := machines()
	m, _ := s.Create(ctx, store.Object[Machine]{Key: "m1"})
	s.Inject(interceptor.Rule{Op: "update", Fault: interceptor.Before(func(ctx context.Context) error {
		_, err := store.Patch(ctx, s, "m1", func(o *store.Object[Machine]) error { o.Value.Disk = "theirs"; return nil })
		return err
	})})
	m.Value.Disk = "mine"
	_, err := s.Update(ctx, m)
	fmt.Println(errors.Is(err, store.ErrConflict))
	// Output: true
}

// The third write fails, whatever its kind.
func ExamplePlan() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	machines, _ := store.Open(db, "machine", store.Config[Machine]{})
	disks, _ := store.Open(db, "disk", store.Config[string]{})
	var plan interceptor.Plan
	m, d := interceptor.NewWithPlan(&plan, machines), interceptor.NewWithPlan(&plan, disks)
	plan.Inject(interceptor.Rule{Op: "create", Nth: 3, Fault: interceptor.Fail(errors.New("the quota is used up"))})

	_, _ = m.Create(ctx, store.Object[Machine]{Key: "m1"})
	_, _ = d.Create(ctx, store.Object[string]{Key: "d1"})
	_, err := m.Create(ctx, store.Object[Machine]{Key: "m2"})
	fmt.Println(err)
	// Output: store: create machine "m2": the quota is used up
}

// A rule can match by the arguments of a call, and by the caller.
func ExampleArgs() {
	ctx := context.Background()
	s := machines()
	s.Inject(interceptor.Rule{
		Op: "create", Caller: "installer", Times: -1, Fault: interceptor.Fail(errors.New("no such disk")),
		When: func(c interceptor.Call) bool { return c.Args.Object.(store.Object[Machine]).Value.Disk == "" },
	})
	installer := s.As("installer")
	_, err1 := installer.Create(ctx, store.Object[Machine]{Key: "m1", Value: Machine{Disk: "ssd"}})
	_, err2 := installer.Create(ctx, store.Object[Machine]{Key: "m2"})
	_, err3 := s.Create(ctx, store.Object[Machine]{Key: "m3"})
	fmt.Println(err1, err2, err3)
	// Output: <nil> store: create machine "m2": no such disk <nil>
}

// A partition that heals.
func ExampleInjection() {
	s := machines()
	partition := s.Inject(interceptor.Rule{Times: -1, Fault: interceptor.LoseRequest()})
	_, err := s.List(context.Background())
	fmt.Println(err)
	partition.Remove()
	_, err = s.List(context.Background())
	fmt.Println(err, partition.Hits())
	// Output:
	// store: list machine: the connection was lost, the outcome is unknown
	// <nil> 1
}

// The calls that were made are remembered: here, a code that only looks.
func ExampleCall() {
	s := machines()
	_, _ = s.Get(context.Background(), "m1")
	for _, c := range s.Calls() {
		fmt.Println(c.Op, c.Key, errors.Is(c.Err, store.ErrNotFound))
	}
	fmt.Println(len(s.Writes()), "writes")
	// Output:
	// get m1 true
	// 0 writes
}
