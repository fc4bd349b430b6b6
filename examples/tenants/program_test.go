package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
)

// served returns what is at a path of a replica.
func served(t *testing.T, address, path string) string {
	t.Helper()
	resp, err := http.Get(address + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	return string(body)
}

// A replica shows its work on a page, in metrics, and in traces. In the traces, a write of one reconcile leads to the
// next reconcile.
func TestReplicaShowsItsWork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	sky, err := cloud.New(cloud.Config{PerSecond: 100, Latency: -1})
	require.NoError(t, err)
	server := httptest.NewServer(sky)
	defer server.Close()
	db, err := openDatabase(ctx, "sqlite:"+filepath.Join(t.TempDir(), "tenants.db"), true)
	require.NoError(t, err)
	defer db.close()
	_, err = db.sql.ExecContext(ctx, "INSERT INTO tenants VALUES ('acme', 'shop', 'pro', 'eu')")
	require.NoError(t, err)

	out, in := io.Pipe()
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with running
		err := run(running, db, config{
			name: "a", cloud: server.URL, listen: "localhost:0", lease: 15 * time.Second, rate: 100, lookEach: time.Second, trace: true,
			out: in, log: slog.New(slog.DiscardHandler),
		})
		in.Close()
		ended <- err
	}()
	var address, metrics, overview, why string
	traces := map[string]map[string]int{} // the spans of each name, by trace
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		var span struct {
			Name        string
			SpanContext struct{ TraceID string }
		}
		if json.Unmarshal([]byte(line), &span) == nil && span.Name != "" {
			if traces[span.SpanContext.TraceID] == nil {
				traces[span.SpanContext.TraceID] = map[string]int{}
			}
			traces[span.SpanContext.TraceID][span.Name]++
		}
		_, _ = fmt.Sscanf(line, "a: serves %s and", &address)
		if strings.Contains(line, "acme/shop Ready") {
			metrics = served(t, strings.TrimSuffix(address, "/debug/"), "/metrics")
			overview = served(t, address, "")
			why = served(t, address, "key?queue=tenants&key=acme/shop")
			stop()
		}
	}
	require.NoError(t, <-ended)
	require.Len(t, sky.All().Items, 3)
	assert.Contains(t, metrics, `leader_election_master_status{name="tenants"} 1`)
	assert.Contains(t, metrics, `controller_runtime_reconcile_total{controller="resources",result="success"} 3`)
	for _, shown := range []string{"tenants, a", "queue?name=resources", "everything is there", `page <a href="` + address} {
		assert.Contains(t, overview, shown)
	}
	for _, shown := range []string{"acme/shop</h1>", "everything is there", "Retry now"} {
		assert.Contains(t, why, shown)
	}
	both := 0
	for _, names := range traces {
		if names["reconcile tenants"] > 0 && names["reconcile resources"] > 0 {
			both++
		}
	}
	assert.Positive(t, both, "a tenant, and the resources that its reconcile has created, are in one trace: %v", traces)
}
