package store

import "fmt"

// Statused is a type of values of which one part is status: what controllers report, beside what people ask for. Its
// method says which part: it returns the receiver with the status of other.
//
//	func (a App) WithStatusOf(other App) App {
//		a.Status = other.Status
//		return a
//	}
//
// The method belongs to T itself, not to *T, looks at its arguments only, and assigns; the store copies. It is called
// without locks, by several goroutines at once.
//
// Each part has a method of its own: Update leaves the status as it is, UpdateStatus everything else. So somebody who
// scales an app and a controller that reports on it cannot write over each other's part, and Object.Generation grows with
// the one and not with the other. Create stores both. Of a type without the method, nothing is status.
type Statused[T any] interface {
	WithStatusOf(other T) T
}

// statusOf returns WithStatusOf of T as a function, or nil when T has no status.
func statusOf[T any]() (func(v, other T) T, error) {
	var v T
	if _, ok := any(v).(Statused[T]); ok {
		return func(v, other T) T { return any(v).(Statused[T]).WithStatusOf(other) }, nil
	}
	if _, ok := any(&v).(Statused[T]); ok {
		return nil, fmt.Errorf("WithStatusOf has to be a method of %T, not of a pointer to it", v)
	}
	return nil, nil
}
