package debug

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/workqueue"
)

// errorView is the keys whose last error is the same, but for the key itself.
type errorView struct {
	Message string `json:"message"` // with errorKey instead of the key
	Keys    int    `json:"keys"`    // that fail or are parked with this error
	Parked  int    `json:"parked"`  // of these
	ID      string `json:"id"`      // the digest of Message
	Link    string `json:"link"`    // to the list of these keys
}

// errorKey stands for the key in a message.
const errorKey = "KEY"

// mostErrors is the number of messages on a page. mostGroups is the number of messages that are counted: a page needs no more memory,
// however many different errors there are.
const (
	mostErrors = 20
	mostGroups = 1000
)

// failures counts keys by their last error. The zero value is ready for use.
type failures struct {
	of   map[string]*errorView
	rest errorView // the keys whose message is not counted
}

// add counts k, whose failure is message: see failureOf.
func (f *failures) add(k controller.KeyInfo, message string) {
	if f.of == nil {
		f.of = make(map[string]*errorView)
	}
	v := f.of[message]
	switch {
	case v != nil:
	case len(f.of) >= mostGroups:
		v = &f.rest
	default:
		v = &errorView{Message: message}
		f.of[message] = v
	}
	v.Keys++
	if k.State == workqueue.Parked {
		v.Parked++
	}
}

// views returns the most frequent errors, and the number of keys with other errors.
func (f *failures) views() (most []errorView, others int) {
	most, others = []errorView{}, f.rest.Keys
	for _, v := range f.of {
		most = append(most, *v)
	}
	slices.SortFunc(most, func(a, b errorView) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), strings.Compare(a.Message, b.Message))
	})
	for _, v := range most[min(mostErrors, len(most)):] {
		others += v.Keys
	}
	return most[:min(mostErrors, len(most))], others
}

// failureOf returns the last error of a key that fails or is parked, with errorKey instead of the key. It returns false for another key.
func failureOf(k controller.KeyInfo) (message string, ok bool) {
	if k.Failures == 0 && k.State != workqueue.Parked {
		return "", false
	}
	if n := len(k.Reasons); n > 0 {
		return withoutKey(k.Reasons[n-1].Text, k.Key), true
	}
	return "", true
}

// withoutKey returns a message with errorKey where the key stands as a word.
func withoutKey(message, key string) string {
	if key == "" {
		return message
	}
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(message, key)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		left, _ := utf8.DecodeLastRuneInString(b.String())
		right, _ := utf8.DecodeRuneInString(after)
		if inWord(left) || inWord(right) {
			b.WriteString(key)
		} else {
			b.WriteString(errorKey)
		}
		message = after
	}
}

// choice is the keys of a queue that a list or an action is about.
type choice struct {
	query string // a text in the key; every key has the empty one
	err   string // the digest of the message of failureOf, or "" for all keys
}

// hasKey reports whether a key has the text. hasError reports whether it has the error, given what failureOf returns for it.
func (c choice) hasKey(k controller.KeyInfo) bool { return strings.Contains(k.Key, c.query) }

func (c choice) hasError(message string, fails bool) bool {
	return c.err == "" || fails && digest(message) == c.err
}

// parked returns the parked keys among the keys of c.
func (c choice) parked(in controller.Inspector) (keys []string) {
	for k := range in.Keys() {
		if k.State == workqueue.Parked && c.hasKey(k) && c.hasError(failureOf(k)) {
			keys = append(keys, k.Key)
		}
	}
	return keys
}
