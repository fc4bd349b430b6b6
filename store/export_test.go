package store

import (
	"fmt"
	"reflect"

	"github.com/setpoint-go/setpoint/internal/statustag"
	"github.com/setpoint-go/setpoint/internal/strictjson"
	"github.com/setpoint-go/setpoint/store/internal/memdb"
)

// CheckInvariants returns an error that names an invariant of db that does not hold.
func (db *Memory) CheckInvariants() error {
	uids := map[string]string{}
	live := func(it memdb.Item) error {
		o := viewOf(it)
		switch {
		case o.UID == "" || uids[o.UID] != "":
			return fmt.Errorf("%q has the UID %q of %q", o.Key, o.UID, uids[o.UID])
		case o.Created.IsZero():
			return fmt.Errorf("%q was never created", o.Key)
		case !o.Deleting.IsZero() && len(o.Finalizers) == 0:
			return fmt.Errorf("%q is being deleted and waits for nothing", o.Key)
		case o.Generation < 1 || !o.Deleting.IsZero() && o.Generation < 2:
			return fmt.Errorf("%q has generation %d", o.Key, o.Generation)
		case len(o.requests) > keptRequests:
			return fmt.Errorf("%q remembers %d requests", o.Key, len(o.requests))
		}
		uids[o.UID] = o.Key
		return nil
	}
	changed := func(was, now memdb.Item) error {
		c := viewOf(now)
		if was != nil {
			return checkStep(viewOf(was), c)
		}
		if c.created && c.Generation != 1 {
			return fmt.Errorf("%q is added with generation %d", c.Key, c.Generation)
		}
		return nil
	}
	return db.items.CheckInvariants(live, changed, "raw") // storetest writes records there that no engine has made
}

// view is what an item has for everybody, whatever the type of its value.
type view struct {
	Object[any]
	hidden
}

// viewer is a state of any type.
type viewer interface{ view() view }

func (s *state[T]) view() view {
	o := s.Object
	return view{Object[any]{
		Key: o.Key, UID: o.UID, Version: o.Version, Generation: o.Generation, Labels: o.Labels, Owners: o.Owners,
		Finalizers: o.Finalizers, Created: o.Created, Deleting: o.Deleting, Value: o.Value,
	}, s.hidden}
}

// viewOf returns the view of an item, also of one that was written as a record.
func viewOf(it memdb.Item) view {
	if v, ok := it.(viewer); ok {
		return v.view()
	}
	rec, _ := it.Record()
	st, _ := (&codec[any]{"", strictjson.Encode[any], strictjson.Decode[any]}).state(&rec)
	return view{st.Object, st.hidden}
}

// checkStep checks what a change makes of the one before it of the same key.
func checkStep(was, c view) error {
	switch {
	case c.created && (c.Generation != 1 || !was.deleted || was.UID == c.UID):
		return fmt.Errorf("%q is added with generation %d, UID %q", c.Key, c.Generation, c.UID)
	case c.created:
		return nil
	case was.deleted || was.UID != c.UID:
		return fmt.Errorf("a change of %q, which is gone", c.Key)
	case !was.Deleting.IsZero() && !c.Deleting.Equal(was.Deleting):
		return fmt.Errorf("the deletion of %q is taken back", c.Key)
	case c.Generation < was.Generation || c.Generation > was.Generation+1:
		return fmt.Errorf("%q has generation %d after %d", c.Key, c.Generation, was.Generation)
	case was.Deleting.IsZero() && !c.Deleting.IsZero() && c.Generation != was.Generation+1:
		return fmt.Errorf("a deletion of %q begins with generation %d after %d", c.Key, c.Generation, was.Generation)
	}
	return nil
}

// Term returns the greatest term of a lease that db has seen.
func (db *Memory) Term(lease string) uint64 { return db.items.Term(lease) }

// Waiting reports whether a watch waits for a change of any kind.
func (db *Memory) Waiting() bool { return db.items.Waiting() }

// Stored returns the object under key as a Memory stores it. It must not be changed.
func Stored[T any](s Store[T], key string) *Object[T] {
	d := s.(*engine[T]).direct
	it, _ := d.items.Find(key, nil)
	return &it.(*state[T]).Object
}

// IsDirect reports whether s keeps values as they are.
func IsDirect[T any](s Store[T]) bool { return s.(*engine[T]).direct != nil }

// CheckStatus returns the error of Open if the status tags of t are wrong.
func CheckStatus(t reflect.Type) error {
	_, err := statustag.Of(t)
	return err
}
