package store

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/setpoint-go/setpoint/store/backend"
)

// checkName returns an error unless s is what a backend can hold as the name of something.
func checkName(what, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("the %s is empty", what)
	case len(s) > limit:
		return fmt.Errorf("the %s has %d bytes, %d are allowed", what, len(s), limit)
	default:
		return checkText(what, s)
	}
}

// checkText returns an error unless every backend returns s as it is.
func checkText(what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("the %s %q is not UTF-8", what, s)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("the %s %q contains NUL", what, s)
	}
	return nil
}

// checkEnvelope returns an error unless the parts of o that the caller owns, but for the key and the value, can be stored.
func checkEnvelope[T any](o *Object[T]) error {
	for label, value := range o.Labels {
		if err := checkName("label", label, backend.MaxKey); err != nil {
			return err
		}
		if err := checkText("value of label "+label, value); err != nil {
			return err
		}
	}
	for _, ref := range o.Owners {
		for _, s := range []string{ref.Kind, ref.Key, ref.UID} {
			if err := checkText("reference to an owner", s); err != nil {
				return err
			}
		}
	}
	for _, f := range o.Finalizers {
		if err := checkText("finalizer", f); err != nil {
			return err
		}
	}
	return nil
}

// checkSelector returns an error unless sel can be asked of every backend.
func checkSelector(sel *Selector) error {
	if err := checkText("prefix", sel.Prefix); err != nil {
		return err
	}
	for _, rule := range sel.Labels {
		if err := checkText("label", rule.Label); err != nil {
			return err
		}
		for _, value := range rule.Values {
			if err := checkText("value of label "+rule.Label, value); err != nil {
				return err
			}
		}
	}
	return nil
}
