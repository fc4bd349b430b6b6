package cache

import (
	"fmt"
	"strings"
)

// KeyFunc returns the key of an object. It is called often and by several goroutines at once. It must return the same
// key for the same object every time.
type KeyFunc[K comparable, T any] func(T) K

// Name is the key of an object that lives in a namespace, or in none. It is comparable, and can be copied.
type Name struct {
	Namespace string // empty for an object without a namespace
	Name      string
}

// ParseName is the inverse of [Name.String]: it takes "name" and "namespace/name", where neither part is empty or has
// a slash in it. The error wraps [ErrName] and quotes the text.
func ParseName(text string) (Name, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		namespace, name = "", text
	}
	switch {
	case name == "":
		return Name{}, fmt.Errorf("cache: parse %q: %w: the name is empty", text, ErrName)
	case found && namespace == "":
		return Name{}, fmt.Errorf("cache: parse %q: %w: the namespace is empty", text, ErrName)
	case strings.Contains(name, "/"):
		return Name{}, fmt.Errorf("cache: parse %q: %w: more than one slash", text, ErrName)
	}
	return Name{Namespace: namespace, Name: name}, nil
}

// String returns "namespace/name", or "name" when the namespace is empty.
func (n Name) String() string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "/" + n.Name
}
