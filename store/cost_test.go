package store_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
)

// job is a value that is behind pointers in part.
type job struct {
	Size  int
	Args  []string
	Env   map[string]string
	Spec  struct{ Ports []struct{ Number int } }
	Owner *string
}

func newJob() job {
	owner := "ann"
	j := job{Args: []string{"-v"}, Env: map[string]string{"TIER": "front"}, Owner: &owner}
	j.Spec.Ports = []struct{ Number int }{{80}, {9090}}
	return j
}

// places returns where the parts of o are.
func places(o *store.Object[job]) map[string]uintptr {
	at := func(v any) uintptr { return reflect.ValueOf(v).Pointer() }
	return map[string]uintptr{
		"args": at(o.Value.Args), "env": at(o.Value.Env), "ports": at(o.Value.Spec.Ports), "owner": at(o.Value.Owner),
		"labels": at(o.Labels), "owners": at(o.Owners), "finalizers": at(o.Finalizers),
	}
}

func TestUpdateCopiesOnlyChangedParts(t *testing.T) {
	for part, change := range map[string]func(o *store.Object[job]){
		"size":       func(o *store.Object[job]) { o.Value.Size++ },
		"args":       func(o *store.Object[job]) { o.Value.Args[0] = "-q" },
		"env":        func(o *store.Object[job]) { o.Value.Env["TIER"] = "back" },
		"ports":      func(o *store.Object[job]) { o.Value.Spec.Ports[1].Number++ },
		"owner":      func(o *store.Object[job]) { *o.Value.Owner = "bob" },
		"labels":     func(o *store.Object[job]) { o.Labels["a"] = "2" },
		"owners":     func(o *store.Object[job]) { o.Owners[0].UID = "2" },
		"finalizers": func(o *store.Object[job]) { o.Finalizers[0] = "other" },
	} {
		t.Run(part, func(t *testing.T) {
			jobs := open[job](t, must(store.NewMemory(store.MemoryConfig{})), "job")
			o, err := jobs.Create(t.Context(), store.Object[job]{
				Key: "a", Value: newJob(), Labels: map[string]string{"a": "1"}, Owners: []store.OwnerRef{{Ref: store.Ref{UID: "1"}}}, Finalizers: []string{"disk"},
			})
			require.NoError(t, err)
			before := places(store.Stored(jobs, "a"))
			change(&o)
			want := o.Version + 1
			o, err = jobs.Update(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, want, o.Version)
			after, returned := places(store.Stored(jobs, "a")), places(&o)
			for name := range before {
				assert.Equal(t, name == part, before[name] != after[name], "%s of the stored object is new", name)
				assert.NotEqual(t, after[name], returned[name], "%s is a copy", name)
			}
		})
	}
}

func TestWriteAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	db := must(store.NewMemory(store.MemoryConfig{History: 1}))
	numbers, jobs := open[int](t, db, "number"), open[job](t, db, "job")
	number, err := numbers.Create(ctx, store.Object[int]{Key: "a"})
	require.NoError(t, err)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		number.Value++
		number, err = numbers.Update(ctx, number)
	}), 1.0, "the object")
	require.NoError(t, err)
	j, err := jobs.Create(ctx, store.Object[job]{Key: "a", Value: job{Args: []string{"-v"}, Spec: newJob().Spec}})
	require.NoError(t, err)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		j.Value.Size++
		j, err = jobs.Update(ctx, j)
	}), 3.0, "the object, and the two lists of what is returned")
	require.NoError(t, err)
}
