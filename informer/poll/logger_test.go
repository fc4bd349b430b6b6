package poll_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer/poll"
)

func TestLoggerReceivesErrorsWithoutOnError(t *testing.T) {
	var log bytes.Buffer
	p := must(poll.New(
		func(context.Context) ([]site, error) { return []site{{Name: "a"}, {Name: "bad"}}, nil },
		nameOf,
		poll.Config[site]{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Valid: func(s site) error {
				if s.Name == "bad" {
					panic("not a site")
				}
				return nil
			},
		},
	))
	l, err := p.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.Items, 1)
	assert.Equal(t, 1, strings.Count(log.String(), "poll continues after an error"), "%s", &log)
	assert.Contains(t, log.String(), "not a site")
	assert.Contains(t, log.String(), "stack=")
}
