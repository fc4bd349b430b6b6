package leaderelect_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/leaderelect"
	records "github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

func TestAnOlderRecordLowersNothingThatWasSeen(t *testing.T) {
	newest := records.Record{Term: 3, Renewal: 7}
	for _, older := range []records.Record{{Term: 2, Renewal: 9}, {Term: 3, Renewal: 6}, {}} {
		term, renewal := leaderelect.SeenAfter(newest, older)
		assert.Equal(t, []uint64{3, 7}, []uint64{term, renewal})
	}
	term, renewal := leaderelect.SeenAfter(newest, records.Record{Term: 4, Renewal: 1})
	assert.Equal(t, []uint64{4, 1}, []uint64{term, renewal})
}
