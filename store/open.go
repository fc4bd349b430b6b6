package store

import (
	"reflect"

	"github.com/setpoint-go/setpoint/store/backend"
)

// Open returns the store of one kind of objects in b. To open a kind again gives the same objects; it is an error to
// do so with another T. It reads and writes nothing.
func Open[T any](b backend.Backend, kind string, cfg Config[T]) (Store[T], error) {
	fail := func(err error) (Store[T], error) { return nil, failed(OpOpen, kind, "", err) }
	s := &engine[T]{kind: kind}
	if err := checkName("kind", kind, backend.MaxKind); err != nil {
		return nil, s.invalid(OpOpen, "", err)
	}
	memory, isMemory := b.(*Memory)
	if b == nil || isMemory && memory == nil {
		return fail(errNoBackend)
	}
	if err := cfg.validate(); err != nil {
		return fail(err)
	}
	s.cfg = cfg.withDefaults()
	withStatus, err := statusOf[T]()
	if err != nil {
		return fail(err)
	}
	life := lifecycle[T]{withStatus}
	s.statued = withStatus != nil
	t := reflect.TypeFor[T]()
	c := &codec[T]{s.cfg.Encode, s.cfg.Decode}
	if c.encode == nil {
		c.encode, c.decode = encodeJSON[T], decodeJSON[T]
	}
	p, errPlain := plainOf(t, t.String(), make(map[reflect.Type]*plain))
	switch {
	case memory != nil && s.cfg.Encode == nil && errPlain == nil:
		s.direct = &direct[T]{memory, memory.kind(kind), newPlainValues[T](p), c, life}
		s.keeper = s.direct
	case s.cfg.Encode == nil:
		if err := checkJSON(t, t.String(), make(map[reflect.Type]bool)); err != nil {
			return fail(err)
		}
		fallthrough
	default:
		can := b.Capabilities()
		s.keeper = &encoded[T]{b, kind, c, life, can.MaxBytes}
		s.skips = can.Skips
	}
	if err := b.Claim(kind, t); err != nil {
		return fail(err)
	}
	return s, nil
}
