package backend

import (
	"fmt"
	"reflect"
	"sync"
)

// Kinds remembers the type of the values of each kind, so that a kind is not opened with two types. A [Backend] embeds one. The zero value
// is ready to use.
type Kinds struct {
	mu sync.Mutex
	// mu guards the following.
	types map[string]reflect.Type
}

// Claim declares the type of the values of a kind. It returns an error if the kind already has another type.
func (k *Kinds) Claim(kind string, of reflect.Type) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if is, ok := k.types[kind]; ok && is != of {
		return fmt.Errorf("it is open with values of type %v already, not %v", is, of)
	}
	if k.types == nil {
		k.types = make(map[string]reflect.Type)
	}
	k.types[kind] = of
	return nil
}
