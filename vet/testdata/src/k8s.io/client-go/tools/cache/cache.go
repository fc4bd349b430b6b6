// Package cache has the part of the real package that the tests of the analyzers use.
package cache

type ResourceEventHandlerFuncs struct {
	AddFunc    func(obj any)
	UpdateFunc func(old, new any)
	DeleteFunc func(obj any)
}

type Store interface {
	GetByKey(key string) (item any, exists bool, err error)
	List() []any
}
