package setpoint_test

import (
	"context"
	"database/sql"
	"go/ast"
	"go/token"
	"math"
	"path"
	"reflect"
	"regexp"
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
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
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
	db, err := store.NewMemory(store.MemoryConfig{})
	require.NoError(t, err)
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
			return errorOf(expectations.NewVersions(cfg))
		}),
		"featuregate.Config": taking(featuregate.Config[int]{}, func(cfg featuregate.Config[int]) error {
			return errorOf(featuregate.New(cfg))
		}),
		"informer.Config": taking(informer.Config{}, func(cfg informer.Config) error {
			return errorOf(informer.New(records, store.Key[storelease.Record], cfg))
		}),
		"poll.Config": taking(poll.Config[string]{}, func(cfg poll.Config[string]) error {
			return errorOf(poll.New(none, self, cfg))
		}),
		"leaderelect.Config": taking(election, func(cfg leaderelect.Config) error { return errorOf(leaderelect.New(cfg)) }),
		"shard.Config":       taking(sharing, func(cfg shard.Config) error { return errorOf(shard.New(cfg)) }),
		"redislease.Config": taking(redislease.Config{}, func(cfg redislease.Config) error {
			return errorOf(redislease.New(redisClient{}, cfg))
		}),
		"retry.Config":    {}, // retry.Do takes it; it holds a Backoff, of which every value is valid
		"sqllease.Config": taking(sqllease.Config{}, func(cfg sqllease.Config) error { return errorOf(sqllease.New(new(sql.DB), cfg)) }),
		"sqllease.SessionsConfig": taking(sqllease.SessionsConfig{}, func(cfg sqllease.SessionsConfig) error {
			return errorOf(sqllease.NewSessions(new(sql.DB), cfg))
		}),
		"store.Config": taking(store.Config[string]{}, func(cfg store.Config[string]) error { return errorOf(store.Open(db, "texts", cfg)) }),
		"store.MemoryConfig": taking(store.MemoryConfig{}, func(cfg store.MemoryConfig) error {
			return errorOf(store.NewMemory(cfg))
		}),
		"storelease.Config": taking(storelease.Config{}, func(cfg storelease.Config) error { return errorOf(storelease.New(records, cfg)) }),
		"workqueue.Config":  taking(workqueue.Config[string]{}, func(cfg workqueue.Config[string]) error { return errorOf(workqueue.New(cfg)) }),
	}
}

type redisClient struct{ redislease.Client }

// documentedConfigs returns the doc comment of each field of each Config of the library.
func documentedConfigs(tree *tree) map[string]map[string]string {
	docs := make(map[string]map[string]string)
	for _, f := range tree.code {
		if !f.library() {
			continue
		}
		for _, decl := range f.ast.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.TypeSpec)
				body, ok := spec.Type.(*ast.StructType)
				if !ok || !spec.Name.IsExported() || !strings.HasSuffix(spec.Name.Name, "Config") {
					continue
				}
				fields, doc := make(map[string]string), ""
				for _, field := range body.Fields.List {
					if field.Doc != nil { // else it shares the comment of the field before it
						doc = strings.Join(strings.Fields(field.Doc.Text()), " ")
					}
					for _, name := range field.Names {
						fields[name.Name] = doc
					}
				}
				docs[path.Base(f.dir)+"."+spec.Name.Name] = fields
			}
		}
	}
	return docs
}

// badValues returns values that no field of a type can mean without saying so, and what its doc comment calls them if it
// gives them a meaning.
func badValues(typ reflect.Type) (bad []any, meaning *regexp.Regexp) {
	negative := regexp.MustCompile(`(?i)\bnegative\b|\bbelow 0\b`)
	switch {
	case typ == reflect.TypeFor[time.Duration]():
		return []any{time.Duration(-1), -time.Hour, time.Duration(math.MinInt64)}, negative
	case typ == reflect.TypeFor[wait.Backoff]():
		return []any{wait.Backoff{Duration: -1}, wait.Backoff{Factor: 2, Steps: 3}}, regexp.MustCompile("no pause")
	case typ.Kind() == reflect.Float64:
		return []any{-1.0, math.Inf(-1)}, negative
	case typ.Kind() == reflect.Int:
		return []any{-1, math.MinInt}, negative
	}
	return nil, nil
}

func TestOutOfBoundsFieldIsNamedOrDocumented(t *testing.T) {
	forEachField(t, func(t *testing.T, c configField) {
		bad, meaning := badValues(c.typ)
		for _, value := range bad {
			if err := c.with(value); !c.isNamedBy(err) && !meaning.MatchString(c.doc) {
				t.Errorf("%v is taken (error: %v), and the doc comment does not say what it means", value, err)
			}
		}
		if c.typ.Kind() == reflect.Float64 {
			assert.True(t, c.isNamedBy(c.with(math.NaN())), "NaN has no meaning")
		}
	})
}

func TestLargestFieldValueIsAcceptedOrNamed(t *testing.T) {
	forEachField(t, func(t *testing.T, c configField) {
		var largest any
		switch c.typ.Kind() {
		case reflect.Int:
			largest = math.MaxInt
		case reflect.Int64:
			largest = int64(math.MaxInt64)
		case reflect.Float64:
			largest = math.MaxFloat64
		default:
			return
		}
		if err := c.with(largest); err != nil {
			_, field, _ := strings.Cut(c.name, ".")
			assert.ErrorContains(t, err, field)
		}
	})
}

func TestFieldWithoutItsRequiredFieldIsNamed(t *testing.T) {
	requires := regexp.MustCompile(`\brequires (?:an? )?(\w+)`)
	found := 0
	forEachField(t, func(t *testing.T, c configField) {
		words := requires.FindStringSubmatch(c.doc)
		if words == nil {
			return
		}
		other, ok := reflect.TypeOf(c.valid).FieldByName(words[1])
		require.True(t, ok, "its doc comment says that it requires %s", words[1])
		found++
		value := reflect.New(c.typ).Elem()
		switch c.typ.Kind() {
		case reflect.Bool:
			value.SetBool(true)
		case reflect.Int, reflect.Int64:
			value.SetInt(1)
		case reflect.Func:
			value = reflect.MakeFunc(c.typ, func([]reflect.Value) []reflect.Value { panic("is not called") })
		}
		assert.ErrorContains(t, c.with(value.Interface()), other.Name)
	})
	assert.GreaterOrEqual(t, found, 4, "the fields of workqueue, cache and leaderelect")
}

func TestMissingRequiredFieldIsNamed(t *testing.T) {
	found := 0
	forEachField(t, func(t *testing.T, c configField) {
		if strings.HasSuffix(c.doc, " Required.") {
			found++
			err := c.with(reflect.Zero(c.typ).Interface())
			assert.True(t, c.isNamedBy(err), "%v", err)
		}
	})
	assert.GreaterOrEqual(t, found, 2)
}

// configField is a field of a Config.
type configField struct {
	configured
	name string // with that of the type: Config.Workers
	doc  string
	typ  reflect.Type
}

// with returns the error of the constructor for a Config in which the field alone has another value.
func (c configField) with(value any) error {
	cfg := reflect.New(reflect.TypeOf(c.valid)).Elem()
	cfg.Set(reflect.ValueOf(c.valid))
	_, field, _ := strings.Cut(c.name, ".")
	to := cfg.FieldByName(field)
	to.Set(reflect.ValueOf(value).Convert(c.typ))
	return c.make(cfg.Interface())
}

func (c configField) isNamedBy(err error) bool {
	return err != nil && regexp.MustCompile(`\b`+regexp.QuoteMeta(c.name)+`\b`).MatchString(err.Error())
}

// forEachField calls check for each exported field of each Config.
func forEachField(t *testing.T, check func(*testing.T, configField)) {
	tree, err := repository()
	require.NoError(t, err)
	made := configs(t)
	for of, docs := range documentedConfigs(tree) {
		c, ok := made[of]
		if !assert.True(t, ok, "%s is missing in configs", of) || c.make == nil {
			continue
		}
		require.NoError(t, c.make(c.valid), of)
		typ := reflect.TypeOf(c.valid)
		for i := range typ.NumField() {
			field := typ.Field(i)
			if !field.IsExported() {
				continue
			}
			t.Run(of+"."+field.Name, func(t *testing.T) {
				_, name, _ := strings.Cut(of, ".")
				check(t, configField{configured: c, name: name + "." + field.Name, doc: docs[field.Name], typ: field.Type})
			})
		}
	}
}
