package backend

import (
	"slices"
	"strings"
)

// Query selects the records of a List or a Watch: those that meet all its conditions. The zero value selects all.
type Query struct {
	Prefix string        // of the key
	Labels []Requirement // all must hold
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
	Not    bool     // negates the rule
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

// Concern reports whether a watch of q must yield r: q selects r as it is, or as it was before its last write.
func (q Query) Concern(r *Record) bool {
	return q.Matches(r.Key, r.Labels) || r.Before != nil && q.Matches(r.Key, r.Before)
}
