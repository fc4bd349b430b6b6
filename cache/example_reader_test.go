package cache_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/cache"
)

// Code that accepts a Reader and an IndexReader can be tested with a stale cache. Here the test passes a snapshot from before the last
// change.
func ExampleReader() {
	report := func(jobs cache.Reader[int, job], byTenant cache.IndexReader[string, int, job]) {
		_, found := jobs.Get(2)
		n := 0
		for range byTenant.All("acme") {
			n++
		}
		fmt.Println("job 2:", found, "jobs of acme:", n)
	}

	jobs := cache.NewIndexer(func(j job) int { return j.id })
	byTenant := cache.AddIndex(jobs, func(j job) []string { return []string{j.tenant} })
	jobs.Upsert(job{id: 1, tenant: "acme"})
	before := jobs.Snapshot()
	jobs.Upsert(job{id: 2, tenant: "acme"})

	report(jobs, byTenant)
	report(before, byTenant.In(before))
	// Output:
	// job 2: true jobs of acme: 2
	// job 2: false jobs of acme: 1
}
