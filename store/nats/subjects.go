package nats

import (
	"fmt"
	"strings"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/backend"
)

// subjects are the subjects of a stream.
//
//   - STREAM.o.KIND.KEY has the states of a record; its last message is the current one, or a tombstone.
//   - STREAM.f.LEASE has the greatest term of a lease.
//   - STREAM.c.LEASE has a message for each write that was fenced with the lease. It carries the check of the term.
//   - STREAM.h has the mark: how much of the history was removed.
type subjects struct {
	objects, fences, checks string // the prefix of all subjects of each sort
	mark                    string
}

func newSubjects(stream string) subjects {
	return subjects{objects: stream + ".o.", fences: stream + ".f.", checks: stream + ".c.", mark: stream + ".h"}
}

// object returns the subject of a record.
func (s *subjects) object(kind, key string) (string, error) {
	if err := problems.Join(checkName("kind", kind, backend.MaxKind), checkName("key", key, backend.MaxKey)); err != nil {
		return "", err
	}
	return s.objects + escape(kind) + "." + escape(key), nil
}

// kind returns the subject that matches all records of a kind.
func (s *subjects) kind(kind string) (string, error) {
	if err := checkName("kind", kind, backend.MaxKind); err != nil {
		return "", err
	}
	return s.objects + escape(kind) + ".*", nil
}

// checkName returns an error if a name does not fit into a subject. The server closes the connection of a client that sends a subject that
// is too long.
func checkName(what, name string, most int) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is empty", what)
	case len(name) > most:
		return fmt.Errorf("the %s has %d bytes, must not have more than %d", what, len(name), most)
	}
	return nil
}

const hexDigits = "0123456789ABCDEF"

// plain reports whether a byte stands for itself in a token of a subject.
func plain(c byte) bool { return c > ' ' && c < 0x7f && c != '.' && c != '*' && c != '>' && c != '=' }

// escape makes one token of a subject from any bytes. A byte that has a meaning in a subject, or is not printable, becomes =XX.
func escape(name string) string {
	var b strings.Builder
	b.Grow(len(name))
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// unescape is the reverse of escape.
func unescape(token string) (string, error) {
	if strings.IndexByte(token, '=') < 0 {
		return token, nil
	}
	var b strings.Builder
	b.Grow(len(token))
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c != '=' {
			b.WriteByte(c)
			continue
		}
		if i+2 >= len(token) {
			return "", fmt.Errorf("the token %q is not of this package", token)
		}
		high, low := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
		if high < 0 || low < 0 {
			return "", fmt.Errorf("the token %q is not of this package", token)
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), nil
}

// key returns the key of the subject of a record.
func (s *subjects) key(subject string) (string, error) {
	return unescape(subject[strings.LastIndexByte(subject, '.')+1:])
}
