// Package prometheus exports the metrics of a setpoint program to Prometheus: those of every controller, queue, informer, elector, slot,
// event recorder, and store that a manager runs. It is a separate module, because it needs github.com/prometheus/client_golang.
//
// # Usage
//
//	import setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
//
//	reg := prometheus.NewRegistry()
//	_, err := setpointprom.New(reg, m) // m is the *manager.Manager
//	http.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
//
// No Config of any part needs to change. Parts that are added to the manager later are found too, and the metrics of a part count from its
// creation. [Metrics.Add] is for parts that the manager does not run, such as a queue without a controller.
//
// # Metrics
//
// The first group has the names, types, labels, help texts, and buckets of controller-runtime and of its workqueues and leader election, so
// their dashboards and alerts work. The other names begin with setpoint_. In a process that also runs controller-runtime, pass its registry,
// metrics.Registry, to New: the series of both are in the same metrics.
//
//	metric                                               type       labels           says
//	------                                               ----       ------           ----
//	workqueue_depth                                      gauge      controller,name,priority  keys that are ready, or will be when they are done
//	workqueue_adds_total                                 counter    controller,name  additions that made a key ready
//	workqueue_queue_duration_seconds                     histogram  controller,name  how long keys waited for a worker, since they were added
//	workqueue_work_duration_seconds                      histogram  controller,name  how long keys were in process
//	workqueue_unfinished_work_seconds                    gauge      controller,name  age of all keys in process, added up
//	workqueue_longest_running_processor_seconds          gauge      controller,name  age of the oldest key in process
//	workqueue_retries_total                              counter    controller,name  additions with a delay
//	controller_runtime_reconcile_total                   counter    controller,result    reconciles by their result
//	controller_runtime_reconcile_errors_total            counter    controller       reconciles that failed
//	controller_runtime_terminal_reconcile_errors_total   counter    controller       reconciles that parked their key
//	controller_runtime_reconcile_panics_total            counter    controller       reconciles that panicked
//	controller_runtime_reconcile_time_seconds            histogram  controller       how long reconciles took
//	controller_runtime_active_workers                    gauge      controller       workers that have a key
//	controller_runtime_max_concurrent_reconciles         gauge      controller       workers
//	leader_election_master_status                        gauge      name             1 while this process may act as the leader
//
//	setpoint_workqueue_oldest_ready_seconds              gauge      controller,name  age of the oldest ready key
//	setpoint_workqueue_paused                            gauge      controller,name  1 between Pause and Resume
//	setpoint_workqueue_parked_keys                       gauge      controller,name  keys that were given up
//	setpoint_workqueue_delayed_keys                      gauge      controller,name  keys that have a wake-up, a backoff, or a quiet time
//	setpoint_controller_reconciles_total                 counter    controller,outcome   reconciles by controller.Outcome, in lower case
//	setpoint_controller_fenced_reconciles_total          counter    controller       reconciles that ended with a fenced write
//	setpoint_controller_held_keys                        gauge      by,controller    keys that have to wait; by says why
//	setpoint_controller_oldest_held_seconds              gauge      by,controller    age of the oldest held key
//	setpoint_controller_cache_lag_seconds                gauge      controller,informer  time from a write until the cache shows it
//	setpoint_controller_unmapped_objects                 gauge      controller       objects whose mapping to keys has failed
//	setpoint_controller_paused                           gauge      controller       1 between Pause and Resume
//	setpoint_informer_objects                            gauge      informer         objects in the cache
//	setpoint_informer_unread_objects                     gauge      informer         objects whose current state could not be read
//	setpoint_informer_missing_records                    gauge      informer         records whose keys could not be read
//	setpoint_informer_version                            gauge      informer         version that the cache has reached
//	setpoint_informer_silent_seconds                     gauge      informer         time since the last list, event, or bookmark
//	setpoint_informer_delayed_seconds                    gauge      informer         time for which an open transaction has delayed the watch
//	setpoint_informer_watching                           gauge      informer         1 while a watch is open
//	setpoint_informer_pending_events                     gauge      informer         events that are not in the cache yet
//	setpoint_informer_backlog_changes                    gauge      informer         changes that wait for handlers
//	setpoint_informer_lists_total                        counter    informer         lists
//	setpoint_informer_errors_total                       counter    informer         errors of lists, watches, and handlers
//	setpoint_lease_left_seconds                          gauge      name             time until the lease is lost unless it is renewed
//	setpoint_lease_terms_total                           counter    name             terms of this process; of slots, acquisitions
//	setpoint_lease_lost_total                            counter    name             terms that were lost
//	setpoint_lease_store_failing                         gauge      name             1 if the last call of the store had no clear answer
//	setpoint_slots                                       gauge      name             slots that the replicas share
//	setpoint_slots_owned                                 gauge      name             slots that this replica owns
//	setpoint_slots_members                               gauge      name             replicas that take part
//	setpoint_events_recorded_total                       counter    recorder         events, with repeats
//	setpoint_events_limited_total                        counter    recorder         events that were dropped by the limit per object
//	setpoint_events_untold_total                         counter    recorder         repeats that were counted and not passed on at once
//	setpoint_events_waiting                              gauge      recorder,sink    events that wait for the sink "write" or "store"
//	setpoint_events_delivered_total                      counter    recorder,sink    events that the sink has taken
//	setpoint_events_merged_total                         counter    recorder,sink    events that were merged while they waited
//	setpoint_events_dropped_total                        counter    recorder,sink    events that were dropped because too many waited
//	setpoint_events_failed_total                         counter    recorder,sink    events that the sink has refused in all attempts
//	setpoint_store_fenced_writes_total                   counter    backend,kind     writes refused because a later leader has written
//	setpoint_feature_enabled                             gauge      name,stage       1 while the feature is enabled
//	setpoint_manager_state                               gauge      state            1 for the state of the manager
//	setpoint_manager_parts                               gauge      kind,state       parts and informers
//	setpoint_manager_part_restarts_total                 counter    kind,part        restarts after failures
//
// docs/metrics.md in the repository lists the values of the labels, and says when a series is missing.
//
// # Guarantees
//
//  1. No label contains the key of an object. All labels are names that the program gives to parts, or one of a few words.
//  2. A part is exported from the first scrape after it was added to the manager until it has ended after its removal. Its totals
//     include everything since its creation.
//  3. A part that several managers or parts share counts once in a registry. Series of different parts with the same labels are merged,
//     which is not an error.
//  4. A scrape holds the lock of a queue for a time that does not depend on the number of keys. With groups, it takes the lock
//     several times.
//  5. A counter decreases only when a part of its name is removed.
package prometheus
