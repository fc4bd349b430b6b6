package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// ask sends a request from this machine. Edits change the request.
func ask(h http.Handler, method, target string, form url.Values, edits ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "http://localhost:6060/"+target, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:1234"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// read returns the body of a page.
func read(t *testing.T, h http.Handler, target string) string {
	t.Helper()
	r := ask(h, http.MethodGet, target, nil)
	body := bodyOf(t, r)
	require.Equal(t, http.StatusOK, r.StatusCode, body)
	return body
}

// readJSON decodes a page.
func readJSON(t *testing.T, h http.Handler, target string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, h, withFormat(target, "json"))), &v))
	return v
}

func withFormat(target, format string) string {
	if strings.Contains(target, "?") {
		return target + "&format=" + format
	}
	return target + "?format=" + format
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

// inScene calls f while the scene runs, in a bubble, when nothing moves anymore.
func inScene(t *testing.T, f func(t *testing.T, s *scene.Scene), further ...string) {
	synctest.Test(t, func(t *testing.T) {
		s, err := scene.New(further...)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Manager.Run(ctx) }()
		synctest.Wait()
		f(t, s)
		cancel()
		require.ErrorIs(t, <-ended, controller.ErrDrainTimeout) // of the reconcile that hangs
	})
}

// step returns the member of v with a name, or the element with a number.
func step(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i < len(v) {
			return v[i]
		}
	}
	return nil
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

var quiet = slog.New(slog.DiscardHandler)

// pageOf returns the page of a manager of parts.
func pageOf(t testing.TB, cfg debug.Config, parts ...manager.Part) *debug.Handler {
	cfg.Logger = quiet
	m, err := manager.New(manager.Config{Logger: quiet}, parts...)
	require.NoError(t, err)
	h, err := debug.New(m, cfg)
	require.NoError(t, err)
	return h
}

// mirrored returns a manager of a controller of secrets, one of which exists.
func mirrored[T any](t *testing.T, obj store.Object[T]) (*manager.Manager, store.Store[T]) {
	db := store.NewMemory(store.MemoryConfig{})
	secrets, err := store.Open(db, "Secret", store.Config[T]{})
	require.NoError(t, err)
	_, err = secrets.Create(t.Context(), obj)
	require.NoError(t, err)
	seen, err := informer.New(secrets, store.Key, informer.Config{Name: "secrets"})
	require.NoError(t, err)
	c, err := controller.New("secrets", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet}, controller.For(seen))
	require.NoError(t, err)
	m, err := manager.New(manager.Config{Logger: quiet}, c)
	require.NoError(t, err)
	return m, secrets
}
