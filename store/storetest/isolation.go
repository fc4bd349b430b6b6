package storetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// spoil changes everything that o refers to.
func spoil(o *object) {
	o.Value.Tags[0] = "spoilt"
	_ = append(o.Value.Tags[:1], "spoilt")
	o.Value.Labels["tier"] = "spoilt"
	delete(o.Value.Labels, "zone")
	o.Value.Main.Name = "spoilt"
	o.Value.Main.Ports[0] = -1
	o.Value.Parts[0].Name = "spoilt"
	o.Value.Parts[0].Ports[0] = -1
	o.Value.Status.Notes[0] = "spoilt"
	o.Labels["tier"] = "spoilt"
	o.Owners[0].UID = "spoilt"
	o.Finalizers[0] = "spoilt"
}

func spoilable() object {
	value := full()
	value.Status.Notes = []string{"new"}
	return object{Key: "web", Value: value, Labels: map[string]string{"tier": "front"}, Owners: owners(), Finalizers: []string{"dns", "disk"}}
}

var isolationCases = []testCase{
	{"mutating an object does not change the store", func(t testing.TB, db Database) {
		s := db.open("thing")
		given := spoilable()
		o, err := s.Create(patient(t), given)
		must(t, err)
		want := text(o)
		intact := func(after string) {
			t.Helper()
			if got := text(get(t, s, "web")); got != want {
				t.Fatalf("after %s was changed:\n got %s\nwant %s", after, got, want)
			}
			if got := text(list(t, s).Items[0]); got != want {
				t.Fatalf("after %s was changed, in the list:\n got %s\nwant %s", after, got, want)
			}
		}
		spoil(&given)
		intact("what was given to Create")
		spoil(&o)
		intact("what Create returned")
		o = get(t, s, "web")
		spoil(&o)
		intact("what Get returned")
		spoil(&list(t, s).Items[0])
		intact("what List returned")
		o = watch(t, patient(t), s, 0).next().Object
		spoil(&o)
		intact("what Watch yielded")

		given = get(t, s, "web")
		given.Value.Size++
		o = update(t, s, given)
		want = text(o)
		spoil(&given)
		intact("what was given to Update")
		given = get(t, s, "web")
		spoil(&given)
		o = update(t, s, given)
		want = text(o)
		given.Labels["tier"], given.Owners[0].UID, given.Finalizers[0] = "again", "again", "again"
		given.Value.Tags[0], given.Value.Main.Ports[0], given.Value.Labels["tier"] = "again", -2, "again"
		intact("what was given to an Update of everything")
		spoil(&o)
		intact("what Update returned")
		given = get(t, s, "web")
		given.Value.Status.Phase = "up"
		o, err = s.UpdateStatus(patient(t), given)
		must(t, err)
		want = text(o)
		spoil(&given)
		intact("what was given to UpdateStatus")
		spoil(&o)
		intact("what UpdateStatus returned")
		selected, err := s.Select(patient(t), store.Selector{Prefix: "w"})
		must(t, err)
		spoil(&selected.Items[0])
		intact("what Select returned")
		o = update(t, s, get(t, s, "web"))
		spoil(&o)
		intact("what an Update that changed nothing returned")
	}},

	{"mutating an object does not change another caller's copy", func(t testing.TB, db Database) {
		s := db.open("thing")
		given := spoilable()
		created, err := s.Create(patient(t), given)
		must(t, err)
		one, other := get(t, s, "web"), get(t, s, "web")
		listed := list(t, s).Items[0]
		seen, seenToo := watch(t, patient(t), s, 0).next().Object, watch(t, patient(t), s, 0).next().Object
		want := text(created)
		all := map[string]*object{
			"Create": &created, "Get": &one, "Get again": &other, "List": &listed, "Watch": &seen, "Watch again": &seenToo,
		}
		spoil(&given)
		for _, name := range []string{"Create", "Get", "Get again", "List", "Watch", "Watch again"} {
			if got := text(*all[name]); got != want {
				t.Fatalf("the result of %s was changed through other copies:\n got %s\nwant %s", name, got, want)
			}
			spoil(all[name])
		}
	}},

	{"mutating an object does not change the history", func(t testing.TB, db Database) {
		s := db.open("thing")
		given := spoilable()
		o, err := s.Create(patient(t), given)
		must(t, err)
		first := text(o)
		o.Value.Size++
		o = update(t, s, o)
		second := text(o)
		spoil(&o)
		remove(t, s, "web")
		o = get(t, s, "web")
		o.Finalizers = nil
		last := update(t, s, o)
		third := content(last)
		o.Value.Tags[0] = "spoilt"
		last.Value.Tags[0] = "spoilt"
		for range 2 {
			w := watch(t, patient(t), s, 0)
			for i, want := range []string{first, second, "", third} {
				e := w.next()
				if got := text(e.Object); i < 2 && got != want {
					t.Fatalf("event %d:\n got %s\nwant %s", i, got, want)
				}
				if got := content(e.Object); e.Type == informer.Deleted && got != want {
					t.Fatalf("event %d:\n got %s\nwant %s", i, got, want)
				}
				if e.Type != informer.Deleted {
					spoil(&e.Object)
				}
			}
		}
	}},
}
