package store

import (
	"slices"
	"strings"
)

// Selector says which objects a Select returns: those that all of it holds for. The zero value selects all.
type Selector struct {
	Prefix string      // of the key
	Labels []LabelRule // all have to hold
}

// LabelRule is a rule about one label of an object:
//
//	{Label: "tier"}                                 there is such a label
//	{Label: "tier", Not: true}                      there is none
//	{Label: "tier", Values: {"front"}}              it has one of these values
//	{Label: "tier", Values: {"front"}, Not: true}   it has none of these values, or is not there
type LabelRule struct {
	Label  string
	Values []string // none means any
	Not    bool     // turns the rule round
}

// InNamespace selects the objects whose keys are "namespace/name". Labels may be added to what it returns.
func InNamespace(namespace string) Selector { return Selector{Prefix: namespace + "/"} }

// Matches says whether sel selects an object with this key and these labels.
func (sel Selector) Matches(key string, labels map[string]string) bool {
	if !strings.HasPrefix(key, sel.Prefix) {
		return false
	}
	for _, rule := range sel.Labels {
		value, ok := labels[rule.Label]
		if holds := ok && (len(rule.Values) == 0 || slices.Contains(rule.Values, value)); holds == rule.Not {
			return false
		}
	}
	return true
}
