package decoded

import "reflect"

// Count returns how many values of a type are remembered.
func Count[T any](all *Values) int {
	of, _ := all.byType.Load(reflect.TypeFor[T]())
	return len(of.(*valuesOf[T]).byText)
}
