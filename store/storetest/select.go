package storetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/store"
)

var selectCases = []testCase{
	{"Select returns what the selector matches, in order, at the version of the list", func(t testing.TB, db Database) {
		s := db.open("thing")
		for _, o := range []object{
			{Key: "shop/web", Labels: map[string]string{"tier": "front", "zone": "a"}},
			{Key: "shop/db", Labels: map[string]string{"tier": "back"}},
			{Key: "shop", Labels: map[string]string{"tier": ""}},
			{Key: "shopping/web", Labels: map[string]string{"tier": "front"}},
			{Key: "%/_", Labels: nil},
		} {
			_, err := s.Create(patient(t), o)
			must(t, err)
		}
		for _, c := range []struct {
			sel  store.Selector
			want []string
		}{
			{store.Selector{}, []string{"%/_", "shop", "shop/db", "shop/web", "shopping/web"}},
			{store.Selector{Prefix: "shop"}, []string{"shop", "shop/db", "shop/web", "shopping/web"}},
			{store.Selector{Prefix: "%"}, []string{"%/_"}},
			{store.Selector{Prefix: "none"}, nil},
			{store.Selector{Prefix: "shop/"}, []string{"shop/db", "shop/web"}},
			{rules(store.Requirement{Label: "tier"}), []string{"shop", "shop/db", "shop/web", "shopping/web"}},
			{rules(store.Requirement{Label: "tier", Not: true}), []string{"%/_"}},
			{rules(store.Requirement{Label: "tier", Values: []string{"front", "x"}}), []string{"shop/web", "shopping/web"}},
			{rules(store.Requirement{Label: "tier", Values: []string{""}}), []string{"shop"}},
			{rules(store.Requirement{Label: "tier", Values: []string{"front", ""}, Not: true}), []string{"%/_", "shop/db"}},
			{rules(store.Requirement{Label: "tier", Values: []string{"front"}}, store.Requirement{Label: "zone"}), []string{"shop/web"}},
			{store.Selector{Prefix: "shop/", Labels: []store.Requirement{{Label: "zone", Not: true}}}, []string{"shop/db"}},
		} {
			l, err := s.Select(patient(t), c.sel)
			must(t, err)
			keys(t, l, c.want...)
			if now := list(t, s).Version; l.Version != now {
				t.Fatalf("Select returns version %d, List %d", l.Version, now)
			}
			for _, o := range l.Items {
				same(t, "what Select returned", o, get(t, s, o.Key))
			}
		}
	}},
}

func rules(all ...store.Requirement) store.Selector { return store.Selector{Labels: all} }
