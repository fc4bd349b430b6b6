package sqllease

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// nameOf maps every key to a name that is valid text in every database, and that is the key itself if it is plain text.
// A backslash, a NUL, and each byte that is not UTF-8 become \xx, where xx is the byte in hexadecimal.
func nameOf(key string) string {
	var b strings.Builder
	for i := 0; i < len(key); {
		r, size := utf8.DecodeRuneInString(key[i:])
		if r == 0 || r == '\\' || r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\%02x`, key[i])
		} else {
			b.WriteString(key[i : i+size])
		}
		i += size
	}
	return b.String()
}

// keyOf is the reverse of nameOf. It is false for a name that nameOf does not return.
func keyOf(name string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '\\' {
			b.WriteByte(name[i])
			continue
		}
		c, err := hex.DecodeString(name[i+1 : min(i+3, len(name))])
		if err != nil {
			return "", false
		}
		b.Write(c)
		i += 2
	}
	return b.String(), nameOf(b.String()) == name
}

// prefixOf returns a text with which the names of all keys begin that begin with prefix: prefix may end within a
// character, which in its name is not the beginning of that of the whole one.
func prefixOf(prefix string) string {
	for range min(utf8.UTFMax-1, len(prefix)) {
		if r, size := utf8.DecodeLastRuneInString(prefix); r != utf8.RuneError || size != 1 {
			break
		}
		prefix = prefix[:len(prefix)-1]
	}
	return nameOf(prefix)
}
