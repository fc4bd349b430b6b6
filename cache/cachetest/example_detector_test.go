package cachetest_test

import (
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/cachetest"
)

type site struct {
	name   string
	labels map[string]string
}

// printer is a test that prints its errors.
type printer struct{ testing.TB }

func (printer) Helper()           {}
func (printer) Error(args ...any) { fmt.Println(args...) }
func (printer) Cleanup(func())    {}

// A test passes t instead of the printer, and Check is called at its end.
func ExampleMutationDetector() {
	key := func(s *site) string { return s.name }
	sites := cache.NewIndexer(key)
	var d *cachetest.MutationDetector[string, *site] = cachetest.DetectMutations(printer{}, sites, key)
	sites.Upsert(&site{name: "a", labels: map[string]string{"tier": "gold"}})

	s, _ := sites.Get("a")
	s.labels["tier"] = "lead" // not ours to change
	d.Check()
	// Output:
	// cachetest: object a was changed after it was cached:
	// 	.labels["tier"] is "lead", was "gold"
}
