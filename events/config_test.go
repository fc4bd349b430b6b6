package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/wait"
)

func TestRecorderConfigErrorsNameTheField(t *testing.T) {
	_, err := events.NewRecorder(events.Config{Objects: -1})
	assert.EqualError(t, err, "events: new recorder: Config.Objects is -1, must not be negative")
	_, err = events.NewRecorder(events.Config{Size: -1, Burst: -1, Refill: -1}) // what is negative is off
	assert.NoError(t, err)
}

func TestQueueConfigErrorsNameTheField(t *testing.T) {
	for want, cfg := range map[string]events.Config{
		"Config.QueueSize is -1, must not be negative":                                              {QueueSize: -1},
		"Config.DrainTimeout is -1s, must not be negative":                                          {DrainTimeout: -time.Second},
		"Config.Max is -1, must not be negative":                                                    {Max: -1},
		"Config.TTL is -1s, must not be negative":                                                   {TTL: -time.Second},
		"Config.Backoff.Duration is 0s, must be positive if another field of Config.Backoff is set": {Backoff: wait.Backoff{Steps: 3}},
	} {
		_, err := events.NewRecorder(cfg)
		assert.EqualError(t, err, "events: new recorder: "+want)
	}
}
