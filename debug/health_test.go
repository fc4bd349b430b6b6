package debug_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// sick is a part that says that it is not healthy.
type sick struct{ manager.Part }

func (sick) Check() error { return errors.New("it hangs\nfor long") }

func TestProbesNameFailingParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
		fails := manager.Func("broken", func(context.Context) error { return errors.New("no disk") })
		m, err := manager.New(manager.Config{
			Logger: quiet, Restart: wait.Backoff{Duration: time.Hour},
		}, sick{manager.Func("worker", idle)}, manager.Func("fine", idle), fails)
		require.NoError(t, err)
		log := new(looptest.Text)
		h, err := debug.New(m, debug.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, err)
		r := ask(h, http.MethodGet, "healthz", nil)
		assert.Equal(t, "ok", bodyOf(t, r))
		assert.Contains(t, bodyOf(t, ask(h, http.MethodGet, "healthz?verbose", nil)), "[+]worker ok\nhealthz check passed\n")
		assert.Equal(t, "ok", bodyOf(t, ask(h, http.MethodGet, "healthz?verbose", nil, from("192.0.2.1:1"))), "no names for strangers")
		r = ask(h, http.MethodGet, "readyz", nil)
		assert.Equal(t, http.StatusInternalServerError, r.StatusCode)
		assert.Equal(t, "[-]manager failed: manager: not ready: the manager is new\n[+]broken ok\n[+]fine ok\n[+]worker ok\nreadyz check failed\n",
			bodyOf(t, r))

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		r = ask(h, http.MethodGet, "healthz", nil)
		assert.Equal(t, http.StatusInternalServerError, r.StatusCode)
		assert.Equal(t, "[+]manager ok\n[+]broken ok\n[+]fine ok\n"+
			`[-]worker failed: manager: check part "worker": it hangs\nfor long`+"\nhealthz check failed\n", bodyOf(t, r))
		r = ask(h, http.MethodGet, "readyz?verbose", nil)
		assert.Contains(t, bodyOf(t, r), "[-]broken failed: manager: not ready: part \"broken\" has failed: no disk\n[+]fine ok\n")
		for _, path := range []string{"readyz", "readyz?verbose", "healthz", "healthz?verbose"} {
			r = ask(h, http.MethodGet, path, nil, from("192.0.2.1:1"))
			assert.Equal(t, http.StatusInternalServerError, r.StatusCode)
			assert.Equal(t, path[:strings.IndexByte(path, 'z')+1]+" check failed\n", bodyOf(t, r), "no names for strangers")
		}
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), "once, and not for readiness: %s", log)
		assert.Contains(t, log.String(), `level=WARN msg="liveness probe failed" parts=[worker] errors="[manager: check part`)
		assert.Contains(t, read(t, h, ""), "Not ready")
		parts := readJSON(t, h, "")["parts"].([]any)
		for _, p := range parts {
			want := ""
			if at(p, "name") == "worker" {
				want = "manager: check part \"worker\": it hangs\nfor long"
			}
			assert.Equal(t, want, at(p, "failing"), "%v", p)
		}
		assert.Len(t, parts, 3)
		assert.Equal(t, http.StatusMethodNotAllowed, ask(h, http.MethodPost, "healthz", nil).StatusCode)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestRunSamplesQueueDepths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := workqueue.New(workqueue.Config[string]{})
		require.NoError(t, err)
		h, err := debug.New(nil, debug.Config{})
		require.NoError(t, err)
		require.NoError(t, h.Add("alone", q))
		require.EqualError(t, h.Add("again", q), `debug: add "again": it was added before`)
		require.EqualError(t, h.Add("x", 1), `debug: add "x": the page cannot show a int`)
		require.EqualError(t, h.Add("x", (*workqueue.Queue[string])(nil)), `debug: add "x": it is a nil *workqueue.Queue[string]`)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		synctest.Wait()
		require.EqualError(t, h.Run(ctx), "debug: run: already running")
		q.Add("a")
		time.Sleep(5 * time.Second)
		v := readJSON(t, h, "")
		assert.Equal(t, "0", at(v, "queues.0.depth.0.ready"))
		assert.Equal(t, "1", at(v, "queues.0.depth.1.ready"))
		assert.Equal(t, "1", at(v, "queues.0.depth.2.ready"))
		assert.Empty(t, at(v, "queues.0.depth.3"))
		assert.Contains(t, read(t, h, ""), `d="M295.0 46.0L297.0 2.0L299.0 2.0"`)
		time.Sleep(time.Hour)
		assert.Len(t, step(step(step(readJSON(t, h, ""), "queues"), "0"), "depth"), 150, "five minutes")
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, h.Run(ctx), "again")
	})
}

func TestRedactFiltersObjects(t *testing.T) {
	for _, tt := range []struct {
		name   string
		redact func(any) any
		want   string
	}{
		{"nothing", nil, "hunter2"},
		{"a copy", func(o any) any {
			s := o.(store.Object[map[string]string])
			s.Value = map[string]string{"password": "hidden"}
			s.Labels, s.Finalizers = map[string]string{"tier": "front"}, nil
			return s
		}, "hidden"},
		{"a copy with its labels", func(o any) any {
			s := o.(store.Object[map[string]string])
			s.Value = nil
			s.Labels, s.Finalizers = map[string]string{"tier": "front"}, []string{"dns"}
			return s
		}, "front"},
		{"all", func(any) any { return nil }, "Config.Redact hides this object."},
		{"a panic", func(any) any { panic("no") }, "The object cannot be shown"},
		{"invalid JSON", func(any) any { return func() {} }, "The object cannot be shown"},
		{"too much", func(any) any { return make([]byte, 1<<20) }, "The object is too large to be shown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { redacted(t, tt.redact, tt.want) })
		})
	}
}

func redacted(t *testing.T, redact func(any) any, want string) {
	m, _ := mirrored(t, store.Object[map[string]string]{
		Key: "a", Value: map[string]string{"password": "hunter2"}, Labels: map[string]string{"pin": "hunter2"}, Finalizers: []string{"hunter2"},
	})
	log, err := events.NewRecorder(events.Config{})
	require.NoError(t, err)
	h, err := debug.New(m, debug.Config{Redact: redact, Logger: quiet})
	require.NoError(t, err)
	require.NoError(t, h.Add("events", log))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	synctest.Wait()
	body := read(t, h, "key?queue=secrets&key=a")
	assert.Contains(t, body, want)
	if redact != nil {
		assert.NotContains(t, body, "hunter2")
		assert.NotContains(t, read(t, h, "key?queue=secrets&key=a&format=json"), "hunter2")
	}
	cancel()
	require.NoError(t, <-ended)
}
