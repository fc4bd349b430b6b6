package otel_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
)

var errBoom = errors.New("boom")

// attributesOf returns attributes as text, without those whose values differ from run to run.
func attributesOf(list []attribute.KeyValue) string {
	var texts []string
	for _, a := range list {
		if a.Key != semconv.ExceptionStacktraceKey {
			texts = append(texts, string(a.Key)+"="+a.Value.String())
		}
	}
	return strings.Join(texts, " ")
}

// split returns the spans of reconciles, and the others.
func split(spans tracetest.SpanStubs) (others, reconciled tracetest.SpanStubs) {
	for _, s := range spans {
		if s.Name == "reconcile sites" {
			reconciled = append(reconciled, s)
		} else {
			others = append(others, s)
		}
	}
	return others, reconciled
}

// eventsOf returns the events of a span as text.
func eventsOf(span tracetest.SpanStub) []string {
	var texts []string
	for _, e := range span.Events {
		texts = append(texts, e.Name+": "+attributesOf(e.Attributes))
	}
	return texts
}

func TestWriteAndReconcileAcrossProcessesShareTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		a, b := newProcess(t, setpointotel.Config{}), newProcess(t, setpointotel.Config{})
		b.running(t, b.sites(db), func(ctx context.Context, key string) (controller.Result, error) {
			_, span := b.provider.Tracer("test").Start(ctx, "call")
			span.End()
			return controller.Result{}, nil
		}, controller.Config[string]{})
		synctest.Wait()
		require.Empty(t, b.spans())

		a.under("POST /sites", func(ctx context.Context) {
			_, err := a.sites(db).Create(ctx, store.Object[site]{Key: "berlin"})
			require.NoError(t, err)
		})
		synctest.Wait()
		written, reconciled := a.spans(), b.spans()
		require.Len(t, written, 1)
		require.Len(t, reconciled, 2)
		call, span := reconciled[0], reconciled[1]
		assert.Equal(t, "reconcile sites", span.Name)
		assert.Equal(t, trace.SpanKindConsumer, span.SpanKind)
		assert.Equal(t, "github.com/setpoint-go/setpoint/tracing/otel", span.InstrumentationScope.Name)
		assert.Equal(t, written[0].SpanContext.TraceID(), span.SpanContext.TraceID())
		assert.Equal(t, written[0].SpanContext.SpanID(), span.Parent.SpanID())
		assert.True(t, span.Parent.IsRemote())
		require.Len(t, span.Links, 1)
		assert.Equal(t, written[0].SpanContext.SpanID(), span.Links[0].SpanContext.SpanID())
		assert.Equal(t, codes.Unset, span.Status.Code)
		assert.Empty(t, span.Events)
		assert.Equal(t, span.SpanContext.SpanID(), call.Parent.SpanID(), "calls of the reconcile are its children")
	})
}

func TestMergedWritesBecomeLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		a, b := newProcess(t, setpointotel.Config{}), newProcess(t, setpointotel.Config{})
		c := b.running(t, b.sites(db), func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, nil
		}, controller.Config[string]{})
		synctest.Wait()
		c.Pause()
		var o store.Object[site]
		for i := range 3 {
			a.under(fmt.Sprint("request ", i), func(ctx context.Context) {
				var err error
				if i == 0 {
					o, err = a.sites(db).Create(ctx, store.Object[site]{Key: "berlin"})
				} else {
					o.Value.Servers++
					o, err = a.sites(db).Update(ctx, o)
				}
				require.NoError(t, err)
			})
			synctest.Wait()
		}
		c.Resume()
		synctest.Wait()
		written, reconciled := a.spans(), b.spans()
		require.Len(t, reconciled, 1)
		require.Len(t, reconciled[0].Links, 3)
		for i, link := range reconciled[0].Links {
			assert.Equal(t, written[i].SpanContext.SpanID(), link.SpanContext.SpanID())
			assert.Equal(t, written[i].SpanContext.TraceID(), link.SpanContext.TraceID())
		}
		assert.Equal(t, written[0].SpanContext.TraceID(), reconciled[0].SpanContext.TraceID(), "the oldest is the parent")
	})
}

// hollow is an error that could wrap another one, and does not.
type hollow struct{}

func (hollow) Error() string { return "hollow" }
func (hollow) Unwrap() error { return nil }

func TestSpanReportsOutcomeOfReconcile(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return errBoom }
	for name, test := range map[string]struct {
		cfg       controller.Config[string]
		reconcile func(ctx context.Context) error
		requeue   time.Duration
		kind      string // error.type; empty if the status is unset
		status    string
		events    []string
	}{
		"succeeded":  {},
		"succeeded ": {requeue: 1500 * time.Millisecond, events: []string{"setpoint.requeue: setpoint.delay=1.5"}},
		"failed": {
			reconcile: func(context.Context) error { return fmt.Errorf("berlin: %w", errBoom) }, kind: "*errors.errorString", status: "berlin: boom",
			events: []string{"exception: exception.type=*errors.errorString exception.message=berlin: boom", "setpoint.retry: setpoint.delay=0.005"},
		},
		"failed ": {
			reconcile: func(context.Context) error {
				return retry.After(errors.Join(hollow{}, &store.Error{Op: "get", Err: store.ErrNotFound}), time.Minute)
			},
			kind: "*errors.errorString", events: []string{"exception: ", "setpoint.retry: setpoint.delay=60"},
		},
		"failed  ": {
			reconcile: func(context.Context) error { return hollow{} }, kind: "otel_test.hollow", status: "hollow",
			events: []string{"exception: exception.type=otel_test.hollow", "setpoint.retry: "},
		},
		"timedout": {
			cfg: controller.Config[string]{Timeout: time.Second}, reconcile: hang, kind: "timeout",
			events: []string{"exception: exception.type=timeout", "setpoint.retry: setpoint.delay=0.005"},
		},
		"panicked": {
			reconcile: func(context.Context) error { panic("boom") }, kind: "panic",
			events: []string{"exception: exception.type=panic exception.message=", "setpoint.retry: setpoint.delay=0.005"},
		},
		"panicked ": {
			reconcile: func(context.Context) error { runtime.Goexit(); return nil }, kind: "panic",
			events: []string{"exception: exception.type=panic", "setpoint.retry: setpoint.delay=0.005"},
		},
		"parked": {
			reconcile: func(context.Context) error { return retry.Permanent(errBoom) }, kind: "*errors.errorString", status: "boom",
			events: []string{"exception: exception.type=*errors.errorString"},
		},
		"unfinished": {
			reconcile: func(context.Context) error { return retry.NotYet(errBoom, time.Minute) },
			events:    []string{"setpoint.repeat: setpoint.reason=boom", "setpoint.retry: setpoint.delay=60"},
		},
		"superseded": {
			cfg: controller.Config[string]{CancelSuperseded: true}, reconcile: hang, events: []string{"setpoint.repeat: setpoint.reason="},
		},
		"canceled": {
			reconcile: func(context.Context) error { return fmt.Errorf("write: %w", store.ErrFenced) },
			events:    []string{"setpoint.repeat: setpoint.reason=write: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t, setpointotel.Config{})
				test.cfg.Logger, test.cfg.Hooks = quiet, setpointotel.Hooks[string](p.Tracing)
				calls := 0
				c := must(controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
					if calls++; calls == 1 && test.reconcile != nil {
						return controller.Result{}, test.reconcile(ctx)
					}
					return controller.Result{RequeueAfter: test.requeue}, nil
				}, test.cfg))
				start(t, c.Run)
				p.under("hook", func(ctx context.Context) {
					c.AddWith("berlin", controller.AddOptions{Trace: p.Context(ctx), Reason: "a hook"})
				})
				synctest.Wait()
				if test.cfg.CancelSuperseded {
					c.Add("berlin")
				}
				time.Sleep(test.cfg.Timeout)
				synctest.Wait()
				hooks, reconciled := split(p.spans())
				require.Len(t, hooks, 1)
				require.NotEmpty(t, reconciled)
				hook, span := hooks[0], reconciled[0]
				outcome := strings.TrimSpace(name)
				want := "setpoint.controller=sites setpoint.key=berlin setpoint.reconcile=1 setpoint.attempt=1 " +
					`setpoint.reasons=["a hook"] setpoint.outcome=` + outcome
				if test.kind != "" {
					want += " error.type=" + test.kind
				}
				assert.Equal(t, want, attributesOf(span.Attributes))
				assert.Equal(t, test.kind != "", span.Status.Code == codes.Error)
				if test.status != "" {
					assert.Equal(t, test.status, span.Status.Description)
				}
				events := eventsOf(span)
				require.Len(t, events, len(test.events))
				for i, e := range events {
					assert.Contains(t, e, test.events[i])
				}
				if test.kind == "panic" {
					stack := span.Events[0].Attributes[2]
					assert.Equal(t, semconv.ExceptionStacktraceKey, stack.Key)
					assert.Contains(t, stack.Value.AsString(), "otel_test.go")
				}
				assert.Equal(t, hook.SpanContext.TraceID(), span.SpanContext.TraceID())

				time.Sleep(2 * time.Minute)
				synctest.Wait()
				again := append(reconciled[1:], p.spans()...)
				switch outcome {
				case "succeeded":
					if test.requeue > 0 {
						require.NotEmpty(t, again)
						assert.Empty(t, again[0].Links, "RequeueAfter has no cause")
						assert.NotEqual(t, hook.SpanContext.TraceID(), again[0].SpanContext.TraceID())
					}
				case "parked", "canceled":
					assert.Empty(t, again)
				default:
					require.Len(t, again, 1)
					assert.Equal(t, hook.SpanContext.TraceID(), again[0].SpanContext.TraceID(), "the next attempt has the same cause")
					require.Len(t, again[0].Links, 1)
					attempt := 2
					if outcome == "unfinished" || outcome == "superseded" {
						attempt = 1
					}
					assert.Contains(t, attributesOf(again[0].Attributes), fmt.Sprintf("setpoint.reconcile=2 setpoint.attempt=%d ", attempt))
				}
			})
		})
	}
}

func TestAttributeNamesFollowSemanticConventions(t *testing.T) {
	p := newProcess(t, setpointotel.Config{})
	c := must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
		panic("boom")
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](p.Tracing)}))
	c.Add("berlin")
	c.Step(t.Context(), "berlin")
	span := p.spans()[0]
	assert.Equal(t, semconv.ErrorTypeKey, span.Attributes[len(span.Attributes)-1].Key)
	var keys []attribute.Key
	for _, a := range span.Events[0].Attributes {
		keys = append(keys, a.Key)
	}
	assert.Equal(t, []attribute.Key{semconv.ExceptionTypeKey, semconv.ExceptionMessageKey, semconv.ExceptionStacktraceKey}, keys)
}

func TestReconcileWithoutCauseStartsTrace(t *testing.T) {
	p := newProcess(t, setpointotel.Config{})
	c := must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](p.Tracing)}))
	for _, cause := range []string{
		"", "boom", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", // which is not sampled
	} {
		c.AddWith("berlin", controller.AddOptions{Trace: cause})
		p.under("run", func(ctx context.Context) { c.Step(ctx, "berlin") })
		spans := p.spans()
		require.Len(t, spans, 2)
		assert.False(t, spans[0].Parent.IsValid(), "%q: not even that of Run is its parent", cause)
		assert.Empty(t, spans[0].Links)
	}
}

func TestTraceContextKeepsTraceState(t *testing.T) {
	p := newProcess(t, setpointotel.Config{})
	state := must(trace.ParseTraceState("vendor=abc"))
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state,
	}))
	text := p.Context(ctx)
	assert.Equal(t, "00-01000000000000000000000000000000-0200000000000000-01 vendor=abc", text)
	var inside string
	c := must(controller.New("sites", func(ctx context.Context, _ string) (controller.Result, error) {
		inside = p.Context(ctx)
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](p.Tracing)}))
	c.AddWith("berlin", controller.AddOptions{Trace: text})
	c.Step(t.Context(), "berlin")
	assert.Regexp(t, "^00-01000000000000000000000000000000-[0-9a-f]{16}-01 setpoint=1,vendor=abc$", inside)
	for _, foreign := range []string{"x", "-7"} { // not a count of this package
		c.AddWith("berlin", controller.AddOptions{Trace: "00-01000000000000000000000000000000-0200000000000000-01 setpoint=" + foreign})
		c.Step(t.Context(), "berlin")
		assert.Regexp(t, " setpoint=1$", inside, foreign)
	}
}

func TestChainOfReconcilesIsCutAfterSixteen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		p := newProcess(t, setpointotel.Config{})
		sites := p.sites(db)
		const writes = 40
		p.running(t, sites, func(ctx context.Context, key string) (controller.Result, error) { // reacts to its own writes
			o, err := sites.Get(ctx, key)
			if err == nil && o.Value.Servers < writes {
				o.Value.Servers++
				_, err = sites.Update(ctx, o)
			}
			return controller.Result{}, err
		}, controller.Config[string]{})
		synctest.Wait()
		p.under("POST /sites", func(ctx context.Context) {
			_, err := sites.Create(ctx, store.Object[site]{Key: "berlin"})
			require.NoError(t, err)
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		var lengths []int // of runs of spans of one trace
		last := trace.TraceID{}
		_, reconciled := split(p.spans())
		require.Len(t, reconciled, writes+1)
		for i, span := range reconciled {
			require.Len(t, span.Links, 1)
			if i > 0 {
				assert.Equal(t, reconciled[i-1].SpanContext.SpanID(), span.Links[0].SpanContext.SpanID(), "the links continue")
			}
			if id := span.SpanContext.TraceID(); id != last {
				last = id
				lengths = append(lengths, 0)
			}
			lengths[len(lengths)-1]++
		}
		assert.Equal(t, []int{16, 17, 8}, lengths, "the first reconcile of a trace without a request is not part of the chain")
	})
}

func TestFractionSamplesReconcilesWithoutCause(t *testing.T) {
	next := 0.0
	p := newProcess(t, setpointotel.Config{Fraction: 0.25, Rand: func() float64 { return next }})
	c := must(controller.New("sites", func(ctx context.Context, _ string) (controller.Result, error) {
		assert.Equal(t, next < 0.25, p.Context(ctx) != "")
		_, span := p.provider.Tracer("test").Start(ctx, "call")
		span.End()
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](p.Tracing)}))
	for _, test := range []struct {
		random float64
		spans  int
	}{{0, 2}, {0.2499, 2}, {0.25, 0}, {0.9999, 0}} {
		next = test.random
		c.Add("berlin")
		c.Step(t.Context(), "berlin")
		assert.Len(t, p.spans(), test.spans, "%v: the reconcile and its calls, or neither", test.random)
	}

	none := newProcess(t, setpointotel.Config{Fraction: -1})
	c = must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](none.Tracing)}))
	for range 100 {
		c.Add("berlin")
		c.Step(t.Context(), "berlin")
	}
	assert.Empty(t, none.spans())
	none.under("hook", func(ctx context.Context) { c.AddWith("berlin", controller.AddOptions{Trace: none.Context(ctx)}) })
	c.Step(t.Context(), "berlin")
	assert.Len(t, none.spans(), 2, "a reconcile with a sampled cause is never dropped")
}

// A sampler that ignores the parent, here or in a called service, decides by the trace ID. A fixed ID would make the same decision for all
// processes: one of zeros is in every fraction.
func TestTraceIDOfDroppedReconcilesDiffersByProcess(t *testing.T) {
	seen := map[trace.TraceID]bool{}
	for range 3 {
		p := newProcess(t, setpointotel.Config{Fraction: -1})
		ctx, _ := setpointotel.Hooks[string](p.Tracing).Trace(t.Context(), "berlin", nil)
		span := trace.SpanContextFromContext(ctx)
		assert.True(t, span.IsValid() && !span.IsSampled())
		seen[span.TraceID()] = true
	}
	assert.Len(t, seen, 3)
}

func TestDroppedSpanLeavesNoTraceContext(t *testing.T) {
	p := newProcess(t, setpointotel.Config{}, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	db := store.NewMemory(store.MemoryConfig{})
	sites := p.sites(db)
	c := must(controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		o, err := sites.Create(ctx, store.Object[site]{Key: key})
		assert.Empty(t, o.Trace)
		return controller.Result{}, err
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](p.Tracing)}))
	c.Add("berlin")
	report, _ := c.Step(t.Context(), "berlin")
	require.NoError(t, report.Err)
	assert.Empty(t, p.spans())
}

// Programs that sample few traces drop nearly every span, so the hook does little before it knows that a span is recorded.
func TestDroppedReconcileAllocatesLittleMoreThanBareSpan(t *testing.T) {
	p := newProcess(t, setpointotel.Config{}, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	sdkAlone := testing.AllocsPerRun(1000, cycleOf(bare(p)))
	hook := testing.AllocsPerRun(1000, cycleOf(setpointotel.Hooks[string](p.Tracing)))
	assert.LessOrEqual(t, hook, sdkAlone+4, "the name of the span, and the text of the key")
}

// sampler keeps what it was asked.
type sampler struct {
	sdk.Sampler
	asked []sdk.SamplingParameters
}

func (s *sampler) ShouldSample(asked sdk.SamplingParameters) sdk.SamplingResult {
	s.asked = append(s.asked, asked)
	return s.Sampler.ShouldSample(asked)
}

func TestSamplerSeesNameKindParentAndLinks(t *testing.T) {
	keeps := &sampler{Sampler: sdk.AlwaysSample()}
	p := newProcess(t, setpointotel.Config{}, sdk.WithSampler(keeps))
	c := must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](p.Tracing)}))
	const cause = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c.AddWith("berlin", controller.AddOptions{Trace: cause})
	c.Step(t.Context(), "berlin")
	require.Len(t, keeps.asked, 1)
	asked := keeps.asked[0]
	assert.Equal(t, "reconcile sites", asked.Name)
	assert.Equal(t, trace.SpanKindConsumer, asked.Kind)
	assert.Equal(t, "b7ad6b7169203331", trace.SpanContextFromContext(asked.ParentContext).SpanID().String())
	require.Len(t, asked.Links, 1)
	assert.Equal(t, "b7ad6b7169203331", asked.Links[0].SpanContext.SpanID().String())
	assert.Empty(t, asked.Attributes, "they are added after the decision")
	assert.NotEmpty(t, p.spans()[0].Attributes)
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for _, fraction := range []float64{1.5, math.NaN(), math.Inf(1)} {
		_, err := setpointotel.New(setpointotel.Config{Fraction: fraction})
		assert.EqualError(t, err, fmt.Sprintf("otel: new: Config.Fraction is %v, must be at most 1", fraction))
	}
	assert.PanicsWithValue(t, "otel: Hooks called with a nil Tracing", func() { setpointotel.Hooks[string](nil) })
}

func TestProviderDefaultsToGlobal(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSyncer(exporter)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	tracing := must(setpointotel.New(setpointotel.Config{}))
	c := must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](tracing)}))
	c.Add("berlin")
	c.Step(t.Context(), "berlin")
	assert.Len(t, exporter.GetSpans(), 1)
}
