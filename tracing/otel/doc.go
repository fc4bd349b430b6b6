// Package otel traces the reconciles of a setpoint program with OpenTelemetry: a span per reconcile, in the trace of the request or the
// write that caused it. It is a separate module, because it needs go.opentelemetry.io/otel.
//
// # Usage
//
//	import setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
//
//	tracing, err := setpointotel.New(setpointotel.Config{})
//	sites, err := store.Open(db, "site", store.Config[Site]{Trace: tracing.Context})
//	c, err := controller.New("sites", reconcile, controller.Config[string]{Hooks: setpointotel.Hooks[string](tracing)}, controller.For(seen))
//
// A write under a span stores the trace context of that span in the object. The change that a watch sees, perhaps in another
// process, adds a key, and the reconcile of that key is in the same trace. A program that adds keys itself, such as a webhook,
// passes the trace context with the key:
//
//	c.AddWith(key, controller.AddOptions{Trace: tracing.Context(ctx)})
//
// # Spans
//
// The name of a span is "reconcile" and the name of the controller, and its kind is consumer. Adds of a key are merged, so a reconcile may
// have several causes. Its span
//
//   - is a child of the oldest cause, so a write and its reconcile are one trace;
//   - has a link to each cause, including its parent. If there are more than eight causes, the oldest and the seven newest are kept.
//
// If a reconcile fails, or must be repeated for another reason, its causes are also causes of the next one. A reconcile without a cause,
// such as one of a resync, begins a trace. So does a reconcile at the end of a chain of 16, in which each reconcile was caused by a write
// of the previous one. Otherwise, a controller that reacts to its own writes would make an endless trace.
//
//	attribute               says
//	---------               ----
//	setpoint.controller     name of the controller
//	setpoint.key            the key, as fmt prints it
//	setpoint.reconcile      number of the reconcile, unique within the controller
//	setpoint.attempt        1 for a key that has not failed
//	setpoint.reasons        why the key was added, if the controller knows: see controller.Info
//	setpoint.outcome        controller.Outcome in lower case, such as "succeeded"
//	error.type              after a failure: "panic", "timeout" for TimedOut, or the type of the innermost error
//
// After Failed, TimedOut, Panicked, and Parked, the status of the span is Error.
//
//	event                   attributes                               when
//	-----                   ----------                               ----
//	exception               exception.type, .message, .stacktrace    the status is Error; the stack of a panic
//	setpoint.repeat         setpoint.reason                          Unfinished, Superseded, and Canceled, with the error
//	setpoint.retry          setpoint.delay, in seconds               the key is reconciled again after a backoff or a delay of the error
//	setpoint.requeue        setpoint.delay                           the reconcile asks for RequeueAfter
//
// In a text that is not UTF-8, such as that of a key, U+FFFD stands for the bytes that are not.
//
// Attributes have the names of OpenTelemetry's semantic conventions, where those exist. There are none for reconciles.
//
// # Guarantees
//
//  1. Each span ends, even after a panic, a runtime.Goexit, or a timeout.
//  2. The context of the reconcile function has the span, so spans of its calls are below it. So has the context of Config.GaveUp.
//  3. A trace context that cannot be parsed or is not sampled is ignored.
//  4. Tracing changes no outcome and fails no write.
//
// # Costs
//
// Config.Fraction decides before the SDK does any work, and a reconcile that it leaves out costs about 80 ns of CPU. A sampler of the SDK
// decides after the SDK has made its identifiers. A reconcile that it drops costs about 0.7 µs, and half of that is the SDK. The sampler
// sees the name, the kind, the parent, and the links of a span. The attributes are added later, and only if the span is recorded. A
// controller without the hook and a store without Config.Trace pay nothing.
package otel
