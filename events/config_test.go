package events_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/events"
)

func TestABadRecorderConfigIsNamed(t *testing.T) {
	_, err := events.NewRecorder(events.Config{Objects: -1})
	assert.EqualError(t, err, "events: new recorder: Config.Objects is -1, must not be negative")
	_, err = events.NewRecorder(events.Config{Size: -1, Burst: -1, Refill: -1}) // what is negative is off
	assert.NoError(t, err)
}

func TestAStoreSinkWithoutAStoreIsMisuse(t *testing.T) {
	assert.PanicsWithValue(t, "events: NewStoreSink: the store is nil", func() { _, _ = events.NewStoreSink(nil, events.StoreConfig{}) })
}
