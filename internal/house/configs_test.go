package house_test

import (
	"context"
	"database/sql"
	"go/ast"
	"iter"
	"maps"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/mutation"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/featuregate"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/informer/poll/httplist"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/retry/gate"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// configured is a Config and the constructor that takes it.
type configured struct {
	valid any // a Config of which one field at a time is changed
	make  func(cfg any) error
}

func taking[C any](valid C, make func(C) error) configured {
	return configured{valid, func(cfg any) error { return make(cfg.(C)) }}
}

// errorOf returns the error of a constructor.
func errorOf[T any](_ T, err error) error { return err }

// configs has every Config of the library, by its package and its name.
func configs(t *testing.T) map[string]configured {
	db := store.NewMemory(store.MemoryConfig{})
	records, err := store.Open(db, "leases", store.Config[storelease.Record]{})
	require.NoError(t, err)
	election := leaderelect.Config{
		Store: memlease.New(), Key: "key",
		OnStartedLeading: func(context.Context, *leaderelect.Leadership) error { return nil },
	}
	sharing := shard.Config{
		Lease:      leaderelect.Config{Store: memlease.New(), Key: "key"},
		OnAcquired: func(context.Context, int) error { return nil },
	}
	self := func(key string) string { return key }
	none := func(context.Context) ([]string, error) { return nil, nil }
	reconcile := func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }

	return map[string]configured{
		"cache.DeltaFIFOConfig": taking(cache.DeltaFIFOConfig[string, string]{}, func(cfg cache.DeltaFIFOConfig[string, string]) error {
			return errorOf(cache.NewDeltaFIFO(self, cfg))
		}),
		"mutation.Config": taking(mutation.Config{}, func(cfg mutation.Config) error {
			return errorOf(mutation.New(cache.NewIndexer(self), self, func(string) uint64 { return 0 }, cfg))
		}),
		"gate.BreakerConfig": taking(gate.BreakerConfig{}, func(cfg gate.BreakerConfig) error {
			return errorOf(gate.NewBreaker(cfg))
		}),
		"controller.Config": taking(controller.Config[string]{}, func(cfg controller.Config[string]) error {
			return errorOf(controller.New("x", reconcile, cfg))
		}),
		"manager.Config": taking(manager.Config{}, func(cfg manager.Config) error { return errorOf(manager.New(cfg)) }),
		"events.Config":  taking(events.Config{}, func(cfg events.Config) error { return errorOf(events.NewRecorder(cfg)) }),
		"debug.Config":   taking(debug.Config{}, func(cfg debug.Config) error { return errorOf(debug.New(nil, cfg)) }),
		"expectations.Config": taking(expectations.Config[string]{}, func(cfg expectations.Config[string]) error {
			expectations.NewVersions(cfg)
			return nil
		}),
		"featuregate.Config": taking(featuregate.Config[int]{}, func(cfg featuregate.Config[int]) error {
			return errorOf(featuregate.New(cfg))
		}),
		"informer.Config": taking(informer.Config{}, func(cfg informer.Config) error {
			return errorOf(informer.New(records, store.Key[storelease.Record], cfg))
		}),
		"httplist.Config": taking(httplist.Config{}, func(cfg httplist.Config) error {
			decode := func([]byte) ([]string, string, error) { return nil, "", nil }
			return errorOf(httplist.New("http://inventory.example", decode, cfg))
		}),
		"files.Config": taking(files.Config[string]{}, func(cfg files.Config[string]) error {
			decode := func(string, []byte) ([]string, error) { return nil, nil }
			return errorOf(files.New("sites", decode, self, cfg))
		}),
		"poll.Config": taking(poll.Config[string]{}, func(cfg poll.Config[string]) error {
			return errorOf(poll.New(none, self, cfg))
		}),
		"fencehttp.ServerConfig": taking(fencehttp.ServerConfig{}, func(cfg fencehttp.ServerConfig) error {
			return errorOf(fencehttp.NewServer(cfg))
		}),
		"leaderelect.Config": taking(election, func(cfg leaderelect.Config) error { return errorOf(leaderelect.New(cfg)) }),
		"shard.Config":       taking(sharing, func(cfg shard.Config) error { return errorOf(shard.New(cfg)) }),
		"redislease.Config":  {}, // every value is valid, as for the next two
		"store.MemoryConfig": {},
		"storelease.Config":  {},
		"retry.Config":       {}, // retry.Do takes it; it holds a Backoff, of which every value is valid
		"sqllease.Config":    taking(sqllease.Config{}, func(cfg sqllease.Config) error { return errorOf(sqllease.New(new(sql.DB), cfg)) }),
		"sqllease.SessionsConfig": taking(sqllease.SessionsConfig{}, func(cfg sqllease.SessionsConfig) error {
			return errorOf(sqllease.NewSessions(new(sql.DB), cfg))
		}),
		"store.Config":     taking(store.Config[string]{}, func(cfg store.Config[string]) error { return errorOf(store.Open(db, "texts", cfg)) }),
		"workqueue.Config": taking(workqueue.Config[string]{}, func(cfg workqueue.Config[string]) error { return errorOf(workqueue.New(cfg)) }),
	}
}

// negative has the fields of which a negative value, or a Backoff without a pause, means something, as their documentation says.
var negative = []string{
	"controller.Config.Background",
	"events.Config.Burst",
	"events.Config.Refill",
	"events.Config.Size",
	"expectations.Config.TTL",
	"files.Config.Grace",
	"files.Config.Interval",
	"files.Config.Settle",
	"informer.Config.ResyncPeriod",
	"leaderelect.Config.DrainTimeout",
	"leaderelect.Config.MaxClockRateSkew",
	"manager.Config.StopTimeout",
	"manager.Config.SyncTimeout",
	"poll.Config.Interval",
	"poll.Config.Jitter",
	"workqueue.Config.Aging",
	"workqueue.Config.RememberFailures",
}

// badValues returns values that no field of a type can mean without saying so, and others that may be accepted.
func badValues(typ reflect.Type) (bad, others []any) {
	switch {
	case typ == reflect.TypeFor[time.Duration]():
		return []any{time.Duration(-1), -time.Hour, time.Duration(math.MinInt64)}, []any{time.Duration(1), time.Duration(math.MaxInt64)}
	case typ == reflect.TypeFor[wait.Backoff]():
		return []any{wait.Backoff{Duration: -1}, wait.Backoff{Factor: 2, Steps: 3}}, nil
	case typ.Kind() == reflect.Float64:
		return []any{-1.0, math.Inf(-1), math.NaN()}, []any{0.6, math.MaxFloat64}
	case typ.Kind() == reflect.Int:
		return []any{-1, math.MinInt}, []any{1, math.MaxInt}
	}
	return nil, nil
}

// A value out of bounds is an error that names the field, and no other field: one about a default that was computed from another field would
// blame a field that the user never set. The largest value is accepted, or an error names the field.
func TestOutOfBoundsFieldIsNamed(t *testing.T) {
	means := slices.Clone(negative)
	blamed := regexp.MustCompile(`\b(\w*Config\.\w+)(?:\.\w+)* (?:is|are|has|must) `)
	for field := range configFields(t) {
		t.Run(field.of+"."+field.name, func(t *testing.T) {
			bad, others := badValues(field.typ)
			if i := slices.Index(means, field.of+"."+field.name); i >= 0 {
				means = slices.Delete(means, i, i+1)
				others = append(others, bad...)
				bad = nil
				if field.typ.Kind() == reflect.Float64 {
					bad = []any{math.NaN()}
				}
			}
			for _, value := range bad {
				assert.Error(t, field.with(value), "%v is accepted", value)
			}
			_, typ, _ := strings.Cut(field.of, ".")
			for _, value := range append(others, bad...) {
				if err := field.with(value); err != nil {
					assert.Regexp(t, `\b`+typ+`\.`+field.name+`\b`, err.Error(), "%v", value)
					for _, of := range blamed.FindAllStringSubmatch(err.Error(), -1) {
						assert.Equal(t, typ+"."+field.name, of[1], "%v: %v", value, err)
					}
				}
			}
		})
	}
	assert.Empty(t, means, "fields that do not exist")
}

// configField is an exported field of a Config.
type configField struct {
	configured
	of, name string // "workqueue.Config", "Workers"
	typ      reflect.Type
}

// with returns the error of the constructor for a Config in which the field alone has another value.
func (c configField) with(value any) error {
	cfg := reflect.New(reflect.TypeOf(c.valid)).Elem()
	cfg.Set(reflect.ValueOf(c.valid))
	cfg.FieldByName(c.name).Set(reflect.ValueOf(value).Convert(c.typ))
	return c.make(cfg.Interface())
}

func configFields(t *testing.T) iter.Seq[configField] {
	return func(yield func(configField) bool) {
		made := configs(t)
		for _, of := range slices.Sorted(maps.Keys(made)) {
			c := made[of]
			if c.make == nil {
				continue
			}
			require.NoError(t, c.make(c.valid), of)
			for _, field := range reflect.VisibleFields(reflect.TypeOf(c.valid)) {
				if field.IsExported() && !yield(configField{c, of, field.Name, field.Type}) {
					return
				}
			}
		}
	}
}

func TestEveryConfigIsChecked(t *testing.T) {
	tree, err := repository()
	require.NoError(t, err)
	made := configs(t)
	for _, f := range tree.code {
		if !f.library() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && strings.HasSuffix(spec.Name.Name, "Config") && spec.Name.IsExported() {
				assert.Contains(t, made, path.Base(f.dir)+"."+spec.Name.Name)
			}
			return true
		})
	}
}
