package manager_test

import (
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// object is what the sources of the tests hold.
type object struct {
	Key   string
	Value int
}

// source is a source of objects in memory.
type source = informertest.Source[string, object]

func newSource() *source {
	return informertest.NewSource(func(o object) string { return o.Key })
}

func newInformer(name string, s *source) *informer.Informer[string, object] {
	return must(informer.New(s, s.Key, informer.Config{Name: name}))
}
