package workqueue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestAllAndInfoMatchSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := workqueue.New(workqueue.Config[int]{
			Timestamps: true, MaxAttempts: 2, Group: func(key int) string { return string(rune('a' + key%3)) },
		})
		require.NoError(t, err)
		q.AddAfter(-1, time.Hour) // the first change of a queue
		for i := range 1000 {
			switch i % 6 {
			case 0:
				q.AddWith(i, workqueue.AddOptions{Priority: i % 4, Reason: "new"})
			case 1:
				q.AddAfter(i, time.Duration(i+1)*time.Second)
			case 2:
				q.AddRateLimited(i)
			case 3:
				q.AddRateLimited(i)
				q.AddRateLimited(i) // parked
			case 4:
				q.AddRateLimited(i)
				q.Cancel(i) // remembered
			case 5:
				q.Add(i)
				q.Cancel(i) // absent
			}
		}
		for range 50 {
			item, ok := q.TryTake()
			require.True(t, ok)
			q.Add(item.Key)
		}
		want := make(map[int]workqueue.KeyInfo[int])
		for _, info := range q.Snapshot() {
			want[info.Key] = info
		}
		require.NotEmpty(t, want)
		got := make(map[int]workqueue.KeyInfo[int])
		for info := range q.All() {
			assert.NotContains(t, got, info.Key)
			got[info.Key] = info
		}
		assert.Equal(t, want, got)
		for i := range 1000 {
			info, ok := q.Info(i)
			_, known := want[i]
			assert.Equal(t, known, ok, i)
			assert.Equal(t, want[i], info, i)
		}
		for range q.All() {
			break // and no more
		}
	})
}

func TestAllSkipsNoRemainingKey(t *testing.T) {
	q, err := workqueue.New(workqueue.Config[int]{})
	require.NoError(t, err)
	const stay = 3000
	for i := range stay {
		q.Add(i)
	}
	var seen []int
	n := 0
	for info := range q.All() { // the queue is not locked here
		if info.Key < stay {
			seen = append(seen, info.Key)
		}
		n++
		q.Add(stay + n)
		q.Cancel(stay + n/2)
	}
	slices.Sort(seen)
	assert.Len(t, slices.Compact(seen), stay)
	assert.Len(t, seen, stay, "each once")
}
