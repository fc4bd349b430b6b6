package mutation_test

import "github.com/setpoint-go/setpoint/cache"

type pod struct {
	name  string
	n     int
	nodes []string
}

func podName(p *pod) string    { return p.name }
func podNodes(p *pod) []string { return p.nodes }

func newPods() *cache.Indexer[string, *pod] { return cache.NewIndexer(podName) }

// a returns a state of the object a.
func a(n int) *pod { return &pod{name: "a", n: n} }

// names returns the keys of seq in order.
func names(seq func(func(string, *pod) bool)) (names []string) {
	for name := range seq {
		names = append(names, name)
	}
	return names
}

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
