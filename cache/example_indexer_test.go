package cache_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/cache"
)

type job struct {
	id     int
	tenant string
	hosts  []string
}

// An index finds objects by a value computed from them. It may be added at any time.
func ExampleIndexer() {
	var key cache.KeyFunc[int, job] = func(j job) int { return j.id }
	jobs := cache.NewIndexer(key)
	jobs.Upsert(job{1, "acme", []string{"h1"}})
	jobs.Upsert(job{2, "acme", []string{"h1", "h2"}})
	jobs.Upsert(job{3, "zeta", nil})

	byHost := cache.AddIndex(jobs, func(j job) []string { return j.hosts })
	for id, j := range byHost.All("h1") {
		fmt.Println(id, j.tenant)
	}

	old, existed := jobs.Upsert(job{2, "acme", []string{"h2"}})
	fmt.Println("moved from", old.hosts, existed)
	fmt.Println("left on h1:", byHost.Len("h1"))
	// Output:
	// 1 acme
	// 2 acme
	// moved from [h1 h2] true
	// left on h1: 1
}

// The values of an index are the groups that exist: here, the tenants that have jobs.
func ExampleIndex() {
	jobs := cache.NewIndexer(func(j job) int { return j.id })
	byTenant := cache.AddIndex(jobs, func(j job) []string { return []string{j.tenant} })
	jobs.Replace([]job{{1, "acme", nil}, {2, "zeta", nil}, {3, "acme", nil}})
	jobs.Delete(2)
	for tenant := range byTenant.Values() {
		fmt.Println(tenant, byTenant.Len(tenant))
	}
	// Output: acme 2
}

// A snapshot is for several reads that must agree, even if there are writes in between.
func ExampleSnapshot() {
	jobs := cache.NewIndexer(func(j job) int { return j.id })
	byTenant := cache.AddIndex(jobs, func(j job) []string { return []string{j.tenant} })
	jobs.Replace([]job{{1, "acme", nil}, {2, "acme", nil}})

	var s *cache.Snapshot[int, job] = jobs.Snapshot()
	jobs.Delete(1)
	for id := range byTenant.In(s).All("acme") {
		_, ok := s.Get(id)
		fmt.Println(id, ok)
	}
	fmt.Println("left now:", byTenant.Len("acme"))
	// Output:
	// 1 true
	// 2 true
	// left now: 1
}
