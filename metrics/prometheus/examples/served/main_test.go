//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
)

// dashboard returns the queries of the dashboard "Controller-Runtime-Metrics", which the grafana plugin of kubebuilder writes
// (pkg/plugins/optional/grafana/v1alpha, controller-runtime-metrics.json). Its variables have values.
func dashboard() []string {
	const of = `{job="sites", namespace="default"}`
	queries := []string{
		`controller_runtime_active_workers` + of,
		`sum(rate(controller_runtime_reconcile_total` + of + `[5m])) by (instance, pod)`,
		`sum(rate(controller_runtime_reconcile_errors_total` + of + `[5m])) by (instance, pod)`,
		`workqueue_depth` + of,
		`sum(rate(workqueue_adds_total` + of + `[5m])) by (instance, name)`,
		`rate(workqueue_unfinished_work_seconds` + of + `[5m])`,
		`sum(rate(workqueue_retries_total` + of + `[5m])) by (instance, name)`,
	}
	for _, quantile := range []string{"0.50", "0.90", "0.99"} {
		for _, histogram := range []string{"workqueue_queue_duration_seconds_bucket", "workqueue_work_duration_seconds_bucket"} {
			queries = append(queries, fmt.Sprintf(`histogram_quantile(%s, sum(rate(%s%s[5m])) by (instance, name, le))`, quantile, histogram, of))
		}
	}
	return queries
}

// positive returns queries among them, and others, whose values are above zero in a program that works, fails, and leads.
func positive() []string {
	return []string{
		`sum(rate(controller_runtime_reconcile_total{job="sites", namespace="default"}[5m])) by (instance, pod)`,
		`sum(rate(controller_runtime_reconcile_errors_total{job="sites", namespace="default"}[5m])) by (instance, pod)`,
		`sum(rate(workqueue_adds_total{job="sites", namespace="default"}[5m])) by (instance, name)`,
		`sum(rate(workqueue_retries_total{job="sites", namespace="default"}[5m])) by (instance, name)`,
		`histogram_quantile(0.9, sum(rate(controller_runtime_reconcile_time_seconds_bucket[5m])) by (le))`,
		`leader_election_master_status{name="sites"}`,
		`setpoint_lease_left_seconds`,
		`sum(setpoint_informer_objects)`,
	}
}

// TestStockDashboardHasData runs the program, and a real Prometheus that scrapes it. It needs prometheus:
// apt-get install prometheus.
func TestStockDashboardHasData(t *testing.T) {
	program := servertest.Program(t, "prometheus", "prometheus")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l) }() // until the end of the test, which waits for it
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})

	p := startPrometheus(t, program, l.Addr().String())
	for _, query := range dashboard() {
		p.await(t, query, func(v float64) bool { return !math.IsNaN(v) })
	}
	for _, query := range positive() {
		p.await(t, query, func(v float64) bool { return v > 0 })
	}
	for _, label := range []string{"namespace", "job"} { // what the variables of the dashboard offer
		assert.Len(t, p.labels(t, "controller_runtime_reconcile_total", label), 1, label)
	}
	alerts := alertsOf(t, "../../../../docs/metrics.md")
	require.GreaterOrEqual(t, len(alerts), 8)
	for _, alert := range alerts { // which Prometheus understands
		_, err := p.query(alert)
		require.NoError(t, err, alert)
	}
}

// alertsOf returns the expressions of the alerts of a document.
func alertsOf(t *testing.T, file string) (queries []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if query, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: "); ok {
			queries = append(queries, query)
		}
	}
	return queries
}

// quiet has the series of a program that works, and loud those of one in which everything is wrong, in the notation of promtool: a+bxn
// is n steps of b, a minute each.
const quiet = `
    - {series: 'leader_election_master_status{name="ops",pod="a"}', values: '1x40'}
    - {series: 'leader_election_master_status{name="ops",pod="b"}', values: '0x40'}
    - {series: 'setpoint_lease_left_seconds{name="ops",pod="a"}', values: '8 9 10 8 9 10 8 9 10 8x31'}
    - {series: 'setpoint_slots{name="ops",pod="a"}', values: '6x40'}
    - {series: 'setpoint_slots{name="ops",pod="b"}', values: '6x40'}
    - {series: 'setpoint_slots_owned{name="ops",pod="a"}', values: '4x40'}
    - {series: 'setpoint_slots_owned{name="ops",pod="b"}', values: '2x40'}
    - {series: 'setpoint_workqueue_oldest_ready_seconds{name="sites"}', values: '1x40'}
    - {series: 'setpoint_workqueue_parked_keys{name="sites"}', values: '0x40'}
    - {series: 'setpoint_controller_oldest_held_seconds{controller="sites",by="cache sites"}', values: '1x40'}
    - {series: 'setpoint_controller_oldest_held_seconds{controller="sites",by="expectations servers"}', values: '2 1 0 3 1 2 4 5x33'}
    - {series: 'controller_runtime_reconcile_total{controller="sites",result="error"}', values: '0+1x40'}
    - {series: 'controller_runtime_reconcile_total{controller="sites",result="success"}', values: '0+9x40'}
    - {series: 'controller_runtime_reconcile_errors_total{controller="sites"}', values: '0+1x40'}
    - {series: 'controller_runtime_reconcile_total{controller="idle",result="success"}', values: '7x40'}
    - {series: 'controller_runtime_reconcile_errors_total{controller="idle"}', values: '3x40'}
    - {series: 'controller_runtime_reconcile_panics_total{controller="sites"}', values: '2x40'}
    - {series: 'setpoint_store_fenced_writes_total{kind="Site"}', values: '0x20 1x20'}
    - {series: 'setpoint_manager_part_restarts_total{part="sites"}', values: '4x40'}
    - {series: 'setpoint_events_dropped_total{recorder="events"}', values: '9x40'}`

const loud = `
    - {series: 'leader_election_master_status{name="ops",pod="a"}', values: '0x40'}
    - {series: 'leader_election_master_status{name="ops",pod="b"}', values: '0x40'}
    - {series: 'setpoint_lease_left_seconds{name="ops",pod="a"}', values: '2x40'}
    - {series: 'setpoint_slots{name="ops",pod="a"}', values: '6x40'}
    - {series: 'setpoint_slots_owned{name="ops",pod="a"}', values: '4x40'}
    - {series: 'setpoint_workqueue_oldest_ready_seconds{name="sites"}', values: '0+60x40'}
    - {series: 'workqueue_longest_running_processor_seconds{name="sites"}', values: '0+60x40'}
    - {series: 'setpoint_workqueue_parked_keys{name="sites"}', values: '1x40'}
    - {series: 'setpoint_controller_oldest_held_seconds{controller="sites",by="pause"}', values: '0+60x40'}
    - {series: 'setpoint_controller_unmapped_objects{controller="sites"}', values: '1x40'}
    - {series: 'controller_runtime_reconcile_total{controller="sites",result="error"}', values: '0+6x40'}
    - {series: 'controller_runtime_reconcile_total{controller="sites",result="success"}', values: '0+1x40'}
    - {series: 'controller_runtime_reconcile_errors_total{controller="sites"}', values: '0+6x40'}
    - {series: 'controller_runtime_reconcile_panics_total{controller="sites"}', values: '0+1x40'}
    - {series: 'setpoint_informer_silent_seconds{informer="sites"}', values: '0+60x40'}
    - {series: 'setpoint_informer_delayed_seconds{informer="sites"}', values: '0+60x40'}
    - {series: 'setpoint_controller_cache_lag_seconds{controller="sites",informer="sites"}', values: '9x40'}
    - {series: 'setpoint_informer_backlog_changes{informer="sites"}', values: '20000x40'}
    - {series: 'setpoint_informer_unread_objects{informer="sites"}', values: '1x40'}
    - {series: 'setpoint_store_fenced_writes_total{kind="Site"}', values: '0+1x40'}
    - {series: 'setpoint_manager_part_restarts_total{part="sites"}', values: '0+1x40'}
    - {series: 'setpoint_events_dropped_total{recorder="events"}', values: '0+1x40'}`

// TestDocumentedAlertsFireWhenTheyShould has Prometheus' own tool run the rules of docs/metrics.md. It needs promtool:
// apt-get install prometheus.
func TestDocumentedAlertsFireWhenTheyShould(t *testing.T) {
	program := servertest.Program(t, "promtool", "prometheus")
	text, err := os.ReadFile("../../../../docs/metrics.md")
	require.NoError(t, err)
	rules, names := "groups:\n- name: documented\n  rules:\n", []string(nil)
	for i, block := range strings.Split(string(text), "```yaml\n") {
		block, _, _ = strings.Cut(block, "```")
		if i == 0 {
			continue
		}
		for line := range strings.Lines(block) {
			rules += "  " + line
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok {
				names = append(names, name)
			}
		}
	}
	require.Len(t, names, len(alertsOf(t, "../../../../docs/metrics.md")))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(rules), 0o644))

	for situation, test := range map[string]struct {
		series string
		fires  []string
	}{
		"nothing is wrong":      {quiet, nil},
		"everything is wrong":   {loud, names},
		"no replica is scraped": {"\n    - {series: 'something_else', values: '1x40'}", []string{"NobodyLeads"}},
	} {
		var tests strings.Builder
		tests.WriteString("rule_files: [rules.yml]\ntests:\n- interval: 1m\n  input_series:" + test.series + "\n  promql_expr_test:\n")
		for _, name := range names {
			want := 0
			if slices.Contains(test.fires, name) {
				want = 1
			}
			fmt.Fprintf(&tests, "  - {expr: 'count(ALERTS{alertname=%q}) or vector(0)', eval_time: 30m, exp_samples: [{labels: '{}', value: %d}]}\n", name, want)
		}
		file := filepath.Join(dir, "tests.yml")
		require.NoError(t, os.WriteFile(file, []byte(tests.String()), 0o644))
		out, err := exec.Command(program, "test", "rules", file).CombinedOutput()
		assert.NoError(t, err, "%s: %s", situation, out)
	}
}

// server is a Prometheus.
type server struct{ url string }

// startPrometheus starts a Prometheus that scrapes a target five times a second.
func startPrometheus(t *testing.T, program, target string) server {
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
- job_name: sites
  static_configs: [{targets: [%q], labels: {namespace: default, pod: sites-0}}]
`, target), 0o644))
	p := server{"http://" + servertest.FreeAddr(t)}
	servertest.Start(t, strings.TrimPrefix(p.url, "http://"), func() *exec.Cmd {
		cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
			"--web.listen-address="+strings.TrimPrefix(p.url, "http://"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}, func() error {
		r, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", r.Status)
		}
		return nil
	})
	return p
}

// await asks a query until it has data, and each value is as the program must make it. A rate needs two scrapes with something
// between them.
func (p server) await(t *testing.T, query string, ok func(float64) bool) {
	t.Helper()
	var values []float64
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		values, err = p.query(query)
		if err == nil && len(values) > 0 && !slices.ContainsFunc(values, func(v float64) bool { return !ok(v) }) {
			return
		}
	}
	require.NoError(t, err, query)
	require.Fail(t, "no data after 30 s", "%s: %v", query, values)
}

func (p server) query(query string) (values []float64, err error) {
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := p.get("/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// labels returns the values of a label of a metric.
func (p server) labels(t *testing.T, metric, label string) []string {
	var answer struct{ Data []string }
	require.NoError(t, p.get("/api/v1/label/"+label+"/values?match[]="+metric, &answer))
	return answer.Data
}

func (p server) get(path string, answer any) error {
	r, err := http.Get(p.url + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, r.Status)
	}
	return json.NewDecoder(r.Body).Decode(answer)
}
