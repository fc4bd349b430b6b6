package store_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
)

// Sheet takes long to copy when it has many rows: long enough for another writer to come in between.
type Sheet struct {
	Rows   [][]int
	Status string
}

func (s Sheet) WithStatusOf(other Sheet) Sheet {
	s.Status = other.Status
	return s
}

// A writer may name a version that is not there yet, and become right while its write is under way. It must not reach past
// its part of the object even so.
func TestAnUpdateOfAVersionThatIsYetToComeWritesItsPartOnly(t *testing.T) {
	rows := make([][]int, 20_000)
	for i := range rows {
		rows[i] = []int{i}
	}
	for _, c := range []struct {
		name  string
		write func(*store.MemoryStore[Sheet], store.Object[Sheet]) (store.Object[Sheet], error)
		check func(store.Object[Sheet])
	}{
		{"Update", func(s *store.MemoryStore[Sheet], o store.Object[Sheet]) (store.Object[Sheet], error) {
			return s.Update(t.Context(), o)
		}, func(o store.Object[Sheet]) { assert.Equal(t, "true", o.Value.Status) }},
		{"UpdateStatus", func(s *store.MemoryStore[Sheet], o store.Object[Sheet]) (store.Object[Sheet], error) {
			return s.UpdateStatus(t.Context(), o)
		}, func(o store.Object[Sheet]) {
			assert.Empty(t, o.Value.Rows)
			assert.Equal(t, map[string]string{"n": "1"}, o.Labels)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 20 {
				s := open[Sheet](t, store.NewMemory(store.MemoryConfig{}), "sheet")
				o, err := s.Create(t.Context(), store.Object[Sheet]{Key: "x", Value: Sheet{Status: "true"}})
				require.NoError(t, err)
				guess := o
				guess.Version++
				guess.Value = Sheet{Rows: rows, Status: "forged"}
				var wg sync.WaitGroup
				started := make(chan struct{})
				wg.Go(func() { // ends with its write; waited for below
					close(started)
					if after, err := c.write(s, guess); err == nil {
						c.check(after)
					}
				})
				<-started
				o.Labels = map[string]string{"n": "1"}
				_, err = s.Update(t.Context(), o)
				wg.Wait()
				require.NoError(t, err)
			}
		})
	}
}
