package problems

import "strings"

// Join returns an error that wraps errs, without those that are nil; or nil if all are.
func Join(errs ...error) error {
	all := &list{}
	for _, err := range errs {
		if err != nil {
			all.errs = append(all.errs, err)
		}
	}
	if len(all.errs) == 0 {
		return nil
	}
	return all
}

type list struct{ errs []error }

func (l *list) Error() string {
	texts := make([]string, len(l.errs))
	for i, err := range l.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (l *list) Unwrap() []error { return l.errs }
