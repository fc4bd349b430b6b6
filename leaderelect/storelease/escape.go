package storelease

import (
	"net/url"
	"strings"
)

// escape returns the key of a lease, or the beginning of one, as a key of a store may be: bytes that are no ASCII, NUL, and
// the percent sign are written as in a URL. What one key begins with is what the other begins with.
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

// unescape returns what escape was given. What escape has not made is left alone.
func unescape(key string) string {
	if lease, err := url.PathUnescape(key); err == nil {
		return lease
	}
	return key
}
