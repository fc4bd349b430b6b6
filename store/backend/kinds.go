package backend

import (
	"fmt"
	"reflect"
	"sync"
)

// Kinds remembers which type the values of each kind have, so that a kind is not opened with two types. A [Backend] embeds
// one. The zero value is ready to use.
type Kinds struct {
	mu sync.Mutex
	// mu guards the following.
	types map[string]reflect.Type
}

// Claim says that the values of a kind are of a type. It returns an error if they are of another one already.
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
