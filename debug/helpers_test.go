package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
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
