package store_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
)

// Reported is embedded in a server: one of its fields is status.
type Reported struct {
	Zone  string
	Ports []int `store:"status"`
}

// Health is embedded in a server: all of it is status.
type Health struct{ Checks map[string]string }

// server has its status in several places.
type server struct {
	Image string
	Args  []string
	Reported
	Health     `store:"status"`
	Ready      bool             `store:"status"`
	Conditions store.Conditions `json:"conditions" store:"status"`
}

// spec returns the part of s that is not status, and status the part that is.
func (s server) spec() string   { return fmt.Sprint(s.Image, s.Args, s.Zone) }
func (s server) status() string { return fmt.Sprint(s.Ports, s.Checks, s.Ready, s.Conditions) }

// anyServer returns a server of one of a few values, so that some parts of two servers are equal.
func anyServer(r *rand.Rand) server {
	s := server{Image: fmt.Sprint("image ", r.IntN(3)), Ready: r.IntN(2) == 0}
	s.Zone, s.Ports = fmt.Sprint("zone ", r.IntN(2)), []int{r.IntN(3), 8080}
	s.Args = []string{fmt.Sprint("-v=", r.IntN(2))}
	s.Checks = map[string]string{"dns": fmt.Sprint(r.IntN(3))}
	s.Conditions = store.Conditions{{Type: "Ready", OK: r.IntN(2) == 0}}
	return s
}

// spoil changes whatever s refers to.
func (s *server) spoil() {
	s.Args[0], s.Ports[0], s.Checks["dns"], s.Conditions[0].Type = "spoiled", -1, "spoiled", "spoiled"
}

func TestUpdateAndUpdateStatusWriteOnlyTheirParts(t *testing.T) {
	s := open[server](t, store.NewMemory(store.MemoryConfig{}), "server")
	r := rand.New(rand.NewPCG(1, 2))
	want := anyServer(r)
	o, err := s.Create(t.Context(), store.Object[server]{Key: "a", Value: want})
	require.NoError(t, err)
	require.Equal(t, want, o.Value, "Create stores both parts")
	for range 200 {
		given := anyServer(r)
		before := o
		asked, reported := given.spec() != want.spec(), given.status() != want.status()
		spec := r.IntN(2) == 0
		next := store.Object[server]{Key: "a", Version: o.Version, Value: given}
		if spec {
			o, err = s.Update(t.Context(), next)
			want.Image, want.Args, want.Zone = given.Image, given.Args, given.Zone
		} else {
			o, err = s.UpdateStatus(t.Context(), next)
			want.Ports, want.Checks, want.Ready, want.Conditions = given.Ports, given.Checks, given.Ready, given.Conditions
		}
		require.NoError(t, err)
		require.Equal(t, want, o.Value)
		require.Equal(t, before.Version != o.Version, spec && asked || !spec && reported, "a write without a change writes nothing")
		require.Equal(t, before.Generation != o.Generation, spec && asked, "the generation counts requested changes")

		// Whatever the caller does to what went in, came out, or was read before, the store keeps what it has.
		want = must(s.Get(t.Context(), "a")).Value
		next.Value.spoil()
		before.Value.spoil()
		got := o.Value
		got.spoil()
		o, err = s.Get(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, want, o.Value, "an update shares nothing with its caller")
	}
}

func TestUpdateStatusKeepsFieldsKnownOnlyToCodec(t *testing.T) {
	type sealed struct {
		secret string
		Ready  bool `store:"status"`
	}
	s, err := store.Open(store.NewMemory(store.MemoryConfig{}), "sealed", store.Config[sealed]{
		Encode: func(v sealed) ([]byte, error) { return fmt.Appendf(nil, "%t %s", v.Ready, v.secret), nil },
		Decode: func(b []byte) (v sealed, err error) {
			_, err = fmt.Sscan(string(b), &v.Ready, &v.secret)
			return v, err
		},
	})
	require.NoError(t, err)
	o, err := s.Create(t.Context(), store.Object[sealed]{Key: "a", Value: sealed{"one", false}})
	require.NoError(t, err)
	o.Value = sealed{"two", true}
	o, err = s.UpdateStatus(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, sealed{"one", true}, o.Value)
	o.Value = sealed{"two", false}
	o, err = s.Update(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, sealed{"two", true}, o.Value)
}

func TestIgnoredStatusTagIsRejected(t *testing.T) {
	type (
		misspelled struct {
			Ready bool `store:"statsu"`
		}
		capital struct {
			Ready bool `store:"Status"`
		}
		nothing struct {
			Ready bool `store:""`
		}
		more struct {
			Ready bool `store:"status,omitempty"`
		}
		unexported struct {
			ready bool `store:"status"`
		}
		good struct {
			Ready bool `store:"status"`
		}
		inner    struct{ misspelled }
		pointing struct{ *good }
		small    struct {
			Value int
			good  `store:"status"`
		}
		ring struct{ *ring }
	)
	_ = unexported{ready: true}
	db := store.NewMemory(store.MemoryConfig{})
	for _, c := range []struct {
		open func(*store.Memory) error
		want string
	}{
		{opens[misspelled], `misspelled.Ready: the tag is store:"statsu", and only store:"status" has a meaning`},
		{opens[capital], `capital.Ready: the tag is store:"Status", and only`},
		{opens[nothing], `nothing.Ready: the tag is store:"", and only`},
		{opens[more], `more.Ready: the tag is store:"status,omitempty", and only`},
		{opens[unexported], `unexported.ready: the tag store:"status" is on an unexported field`},
		{opens[inner], `inner.misspelled.Ready: the tag is store:"statsu"`},
		{opens[pointing], `pointing.good.Ready: the tag store:"status" is in a struct that is embedded by a pointer`},
		{opens[small], `small.good: the tag store:"status" is on an unexported field`},
		{opens[*good], `good.Ready: the tag store:"status" needs a kind of store_test.good, not of *store_test.good`},
		{opens[**misspelled], `misspelled.Ready: the tag is store:"statsu"`},
	} {
		err := c.open(db)
		assert.ErrorContains(t, err, "store: open kind: store_test."+c.want)
	}
	assert.ErrorContains(t, opens[ring](db), "unexported", "it ends, and the tag is valid")

	for _, tag := range []reflect.StructTag{`json:"ready", store:"status"`, `store:status`} { // vet would not let them stand
		ready := reflect.StructField{Name: "Ready", Type: reflect.TypeFor[bool](), Tag: tag}
		err := store.CheckStatus(reflect.StructOf([]reflect.StructField{ready}))
		assert.ErrorContains(t, err, fmt.Sprintf(".Ready: the tag %q is malformed", tag))
	}

	type fleet struct{ Servers []good } // a good may be a kind of its own
	require.NoError(t, opens[fleet](db))
	fleets := open[fleet](t, db, "fleet")
	_, err := fleets.UpdateStatus(t.Context(), store.Object[fleet]{Key: "a"})
	require.ErrorIs(t, err, store.ErrInvalid)
}
