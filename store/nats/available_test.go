package nats_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store/nats"
)

var errGone = errors.New("gone")

// While a cluster or its stream has no leader, requests are answered at once: nobody responds. Open and Create ask again.
func TestOpenWaitsUntilJetStreamIsAvailable(t *testing.T) {
	for name, call := range map[string]func(context.Context, jetstream.JetStream, nats.Config) error{
		"Open": func(ctx context.Context, js jetstream.JetStream, cfg nats.Config) error {
			_, err := nats.Open(ctx, js, cfg)
			return err
		},
		"Create": nats.Create,
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t).ClientURL()
			there := connect(t, url)
			cfg := nats.Config{Stream: newStream(t, there), Timeout: 500 * time.Millisecond}
			js, err := jetstream.NewWithAPIPrefix(connect(t, url).Conn(), "later") // where nobody responds for now
			require.NoError(t, err)
			require.ErrorIs(t, call(t.Context(), js, cfg), natsgo.ErrNoResponders)
			cfg.Timeout = time.Minute
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(errGone) })
			require.ErrorIs(t, call(ctx, js, cfg), errGone)

			sent := func() uint64 { return js.Conn().Stats().OutMsgs }
			asks := func(why string) {
				t.Helper()
				before := sent()
				require.Eventually(t, func() bool { return sent() >= before+3 }, 10*time.Second, time.Millisecond, why)
			}
			ended := make(chan error, 1)
			go func() { ended <- call(t.Context(), js, cfg) }() // ends when JetStream responds; the test waits for it
			asks("nobody responds")
			var elected atomic.Bool
			// One subscription for both phases: a message that arrives while one replaces the other would be lost, and not be repeated.
			_, err = there.Conn().Subscribe("later.>", func(m *natsgo.Msg) {
				if !elected.Load() {
					_ = m.Respond([]byte(`{"error": {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}}`))
					return
				}
				reply, err := there.Conn().Request("$JS.API."+strings.TrimPrefix(m.Subject, "later."), m.Data, 10*time.Second)
				if assert.NoError(t, err) {
					assert.NoError(t, m.Respond(reply.Data))
				}
			})
			require.NoError(t, err)
			asks("a server knows no leader")
			elected.Store(true)
			require.NoError(t, <-ended)
		})
	}
}
