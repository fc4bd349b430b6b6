package backend

import (
	"slices"
	"strings"
)

// Query says which records a List or a Watch is about: those that all of it holds for. The zero value selects all.
type Query struct {
	Prefix string        // of the key
	Labels []Requirement // all have to hold
}

// Requirement is a rule about one label:
//
//	{Label: "tier"}                                 there is such a label
//	{Label: "tier", Not: true}                      there is none
//	{Label: "tier", Values: {"front"}}              it has one of these values
//	{Label: "tier", Values: {"front"}, Not: true}   it has none of these values, or is not there
type Requirement struct {
	Label  string
	Values []string // none means any
	Not    bool     // turns the rule round
}

// Matches reports whether q selects a key with these labels.
func (q Query) Matches(key string, labels map[string]string) bool {
	if !strings.HasPrefix(key, q.Prefix) {
		return false
	}
	for _, rule := range q.Labels {
		value, ok := labels[rule.Label]
		if holds := ok && (len(rule.Values) == 0 || slices.Contains(rule.Values, value)); holds == rule.Not {
			return false
		}
	}
	return true
}

// Concern reports whether a watch of q has to hear of r: q selects it as it is, or as it was before its last write.
func (q Query) Concern(r *Record) bool {
	return q.Matches(r.Key, r.Labels) || r.Before != nil && q.Matches(r.Key, r.Before)
}
