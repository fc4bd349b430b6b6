package storelease

import (
	"net/url"
	"strings"
)

// escape returns the key of a lease, or a prefix of one, in a form that every store accepts: non-ASCII bytes, NUL, and the percent sign are
// escaped as in a URL. A prefix of a key becomes a prefix of the escaped key.
func escape(key string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c == 0 || c == '%' || c >= 0x80 {
			b.WriteString("%" + hex[c>>4:c>>4+1] + hex[c&15:c&15+1])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape is the reverse of escape. It returns false for text that escape never returns.
func unescape(text string) (key string, ok bool) {
	key, err := url.PathUnescape(text)
	return key, err == nil && escape(key) == text
}
