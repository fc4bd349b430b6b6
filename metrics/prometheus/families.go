package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// family is a metric: its series differ in the values of its labels. Families of Kubernetes have the names, help texts, and labels of
// controller-runtime, because a registry, and a page, accepts only one help text and one set of labels for a name.
type family struct {
	name   string
	help   string
	labels []string
	kind   prometheus.ValueType // Untyped for a histogram
	merge  func(a, b float64) float64
	desc   *prometheus.Desc

	// bounds are those of a histogram of workqueues, exactly as client-go computes them. Some differ from the powers of ten in the last digit, and
	// so does the label le.
	bounds []float64
}

// isOwn reports whether f is not a metric of Kubernetes.
func (f *family) isOwn() bool { return strings.HasPrefix(f.name, "setpoint_") }

// families are all metrics, in the order of the table in the documentation.
type families struct {
	all []*family

	depth, adds, queueDuration, workDuration, unfinished, longest, retries *family
	oldestReady, parkedKeys, delayed, pausedQueue                          *family

	reconciles, errors, terminal, panics, time, active, workers    *family
	outcomes, fenced, held, oldestHeld, cacheLag, unmapped, paused *family

	objects, unread, missing, version, silent, heldUp, watching, pending, backlog, lists, sourceErrors *family

	master, leaseLeft, terms, lost, leaseFails *family
	slots, slotsOwned, slotsMembers            *family

	recorded, limited, untold, waiting, delivered, merged, dropped, failed *family

	storeFenced *family

	features *family

	state, parts, restarts *family
}

func newFamilies() *families {
	fs := &families{}
	queue := []string{"name", "controller"}
	fs.depth = fs.gauge("workqueue_depth", "Current depth of workqueue by workqueue and priority", append(queue, "priority")...)
	fs.adds = fs.counter("workqueue_adds_total", "Total number of adds handled by workqueue", queue...)
	fs.queueDuration = fs.histogram("workqueue_queue_duration_seconds",
		"How long in seconds an item stays in workqueue before being requested", queue...)
	fs.workDuration = fs.histogram("workqueue_work_duration_seconds",
		"How long in seconds processing an item from workqueue takes.", queue...)
	fs.queueDuration.bounds = prometheus.ExponentialBuckets(10e-9, 10, 12)
	fs.workDuration.bounds = fs.queueDuration.bounds
	fs.unfinished = fs.gauge("workqueue_unfinished_work_seconds", "How many seconds of work has been done that "+
		"is in progress and hasn't been observed by work_duration. Large "+
		"values indicate stuck threads. One can deduce the number of stuck "+
		"threads by observing the rate at which this increases.", queue...)
	fs.longest = fs.largest("workqueue_longest_running_processor_seconds",
		"How many seconds has the longest running processor for workqueue been running.", queue...)
	fs.retries = fs.counter("workqueue_retries_total",
		"Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)",
		queue...)
	fs.oldestReady = fs.largest("setpoint_workqueue_oldest_ready_seconds", "How long the oldest ready key has been ready", queue...)
	fs.parkedKeys = fs.gauge("setpoint_workqueue_parked_keys", "Keys that were given up", queue...)
	fs.pausedQueue = fs.largest("setpoint_workqueue_paused", "1 between Pause and Resume", queue...)
	fs.delayed = fs.gauge("setpoint_workqueue_delayed_keys", "Keys with a wake-up, a backoff, or a quiet time", queue...)

	const controller = "controller"
	fs.reconciles = fs.counter("controller_runtime_reconcile_total", "Total number of reconciliations per controller", controller, "result")
	fs.errors = fs.counter("controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller", controller)
	fs.terminal = fs.counter("controller_runtime_terminal_reconcile_errors_total",
		"Total number of terminal reconciliation errors per controller", controller)
	fs.panics = fs.counter("controller_runtime_reconcile_panics_total", "Total number of reconciliation panics per controller", controller)
	fs.time = fs.histogram("controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller", controller)
	fs.active = fs.gauge("controller_runtime_active_workers", "Number of currently used workers per controller", controller)
	fs.workers = fs.gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller", controller)
	fs.outcomes = fs.counter("setpoint_controller_reconciles_total", "Reconciles, by outcome", controller, "outcome")
	fs.fenced = fs.counter("setpoint_controller_fenced_reconciles_total", "Reconciles that ended with a fenced write", controller)
	fs.held = fs.gauge("setpoint_controller_held_keys", "Keys that are to be reconciled and have to wait, by reason", controller, "by")
	fs.oldestHeld = fs.largest("setpoint_controller_oldest_held_seconds", "For how long the oldest held key has been held, by reason", controller, "by")
	fs.cacheLag = fs.largest("setpoint_controller_cache_lag_seconds",
		"How long a cache took to show a write of a reconcile, or has not shown it", controller, "informer")
	fs.unmapped = fs.gauge("setpoint_controller_unmapped_objects", "Objects that could not be mapped to keys and are tried again", controller)
	fs.paused = fs.largest("setpoint_controller_paused", "1 between Pause and Resume", controller)

	const informer = "informer"
	fs.objects = fs.gauge("setpoint_informer_objects", "Objects in the cache", informer)
	fs.unread = fs.gauge("setpoint_informer_unread_objects", "Objects that exist and whose current state could not be read", informer)
	fs.missing = fs.gauge("setpoint_informer_missing_records", "Records of the last list of which not even the keys could be read", informer)
	fs.version = fs.smallest("setpoint_informer_version", "Version of the source that the cache has reached", informer)
	fs.silent = fs.largest("setpoint_informer_silent_seconds", "Time since the last list, event, or bookmark of the source", informer)
	fs.heldUp = fs.largest("setpoint_informer_delayed_seconds", "Time for which something, such as an open transaction, has delayed the watch", informer)
	fs.watching = fs.smallest("setpoint_informer_watching", "1 while a watch is open", informer)
	fs.pending = fs.gauge("setpoint_informer_pending_events", "Events that were read and are not in the cache yet", informer)
	fs.backlog = fs.gauge("setpoint_informer_backlog_changes", "Changes that wait for handlers", informer)
	fs.lists = fs.counter("setpoint_informer_lists_total", "Lists that the source has answered", informer)
	fs.sourceErrors = fs.counter("setpoint_informer_errors_total", "Errors of lists, watches, and handlers", informer)

	const name = "name"
	fs.master = fs.largest("leader_election_master_status", "Gauge of if the reporting system is master of the relevant lease, "+
		"0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.", name)
	fs.leaseLeft = fs.smallest("setpoint_lease_left_seconds", "Time until the lease is lost unless it is renewed; of slots, the first one", name)
	fs.terms = fs.counter("setpoint_lease_terms_total", "Terms of this process; of slots, acquisitions", name)
	fs.lost = fs.counter("setpoint_lease_lost_total", "Terms that were lost, and not ended by this process", name)
	fs.leaseFails = fs.largest("setpoint_lease_store_failing", "1 if the last call of the store of leases had no clear answer", name)
	fs.slots = fs.largest("setpoint_slots", "Slots that the replicas share", name)
	fs.slotsOwned = fs.gauge("setpoint_slots_owned", "Slots that this replica owns", name)
	fs.slotsMembers = fs.largest("setpoint_slots_members", "Replicas that take part, as this one has last seen", name)

	const recorder, sink = "recorder", "sink"
	fs.recorded = fs.counter("setpoint_events_recorded_total", "Events that were recorded, with repeats", recorder)
	fs.limited = fs.counter("setpoint_events_limited_total", "Events that were dropped by the limit per object", recorder)
	fs.untold = fs.counter("setpoint_events_untold_total", "Repeats that were counted and not passed on at once", recorder)
	fs.waiting = fs.gauge("setpoint_events_waiting", "Events that wait for a sink", recorder, sink)
	fs.delivered = fs.counter("setpoint_events_delivered_total", "Events that a sink has taken", recorder, sink)
	fs.merged = fs.counter("setpoint_events_merged_total", "Events that were merged while they waited for a sink", recorder, sink)
	fs.dropped = fs.counter("setpoint_events_dropped_total", "Events that were dropped because too many waited for a sink", recorder, sink)
	fs.failed = fs.counter("setpoint_events_failed_total", "Events that a sink has refused in all attempts", recorder, sink)

	const kind, backend = "kind", "backend"
	fs.storeFenced = fs.counter("setpoint_store_fenced_writes_total", "Writes that were refused because a later leader has written", kind, backend)

	fs.features = fs.largest("setpoint_feature_enabled", "1 while the feature is enabled", "name", "stage")

	fs.state = fs.gauge("setpoint_manager_state", "Managers, by state", "state")
	fs.parts = fs.gauge("setpoint_manager_parts", "Parts and informers of managers, by state", kind, "state")
	fs.restarts = fs.counter("setpoint_manager_part_restarts_total", "How often a part was started again after a failure", kind, "part")
	return fs
}

func (fs *families) add(kind prometheus.ValueType, merge func(a, b float64) float64, name, help string, labels []string) *family {
	f := &family{name: name, labels: labels, kind: kind, merge: merge}
	if f.isOwn() {
		help += "."
	}
	f.help, f.desc = help, prometheus.NewDesc(name, help, labels, nil)
	fs.all = append(fs.all, f)
	return f
}

func sum(a, b float64) float64 { return a + b }

func (fs *families) counter(name, help string, labels ...string) *family {
	return fs.add(prometheus.CounterValue, sum, name, help, labels)
}

func (fs *families) gauge(name, help string, labels ...string) *family {
	return fs.add(prometheus.GaugeValue, sum, name, help, labels)
}

// largest adds a gauge whose series of several parts with the same name merge to the largest value.
func (fs *families) largest(name, help string, labels ...string) *family {
	return fs.add(prometheus.GaugeValue, func(a, b float64) float64 { return max(a, b) }, name, help, labels)
}

// smallest adds a gauge whose series of several parts with the same name merge to the smallest value.
func (fs *families) smallest(name, help string, labels ...string) *family {
	return fs.add(prometheus.GaugeValue, func(a, b float64) float64 { return min(a, b) }, name, help, labels)
}

func (fs *families) histogram(name, help string, labels ...string) *family {
	return fs.add(prometheus.UntypedValue, sum, name, help, labels)
}
