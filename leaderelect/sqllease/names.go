package sqllease

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// nameOf maps each key to a unique name that is valid text in every database. A backslash, a NUL, and each byte that is
// not valid UTF-8 become \xx, where xx is the byte in hexadecimal. All other text is unchanged.
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

// keyOf is the reverse of nameOf. It returns false for a name that nameOf never returns.
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

// prefixOf returns a common prefix of the names of all keys that begin with prefix. If prefix ends within a character,
// its own name is no such prefix, because the escape of half a character does not begin the whole one.
func prefixOf(prefix string) string {
	for range min(utf8.UTFMax-1, len(prefix)) {
		if r, size := utf8.DecodeLastRuneInString(prefix); r != utf8.RuneError || size != 1 {
			break
		}
		prefix = prefix[:len(prefix)-1]
	}
	return nameOf(prefix)
}
