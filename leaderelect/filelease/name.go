package filelease

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// maxFileName is the maximum length of an escaped key. With its suffix it fits in the 255 bytes that file systems allow.
const maxFileName = 200

// fileName maps each key to a unique file name, without suffix. Lower-case letters, digits, '-', and '_' are unchanged,
// and so are dots after the first byte. Any other byte becomes %xx. So no file is outside the directory or hidden, and no
// two names differ only in case. The name of a key that is too long is truncated, and ends with '~' and the SHA-256 of the key.
// The name of the empty key is "~".
func fileName(key string) string {
	if key == "" {
		return "~"
	}
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	name := b.String()
	if len(name) <= maxFileName {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	hash := "~" + hex.EncodeToString(sum[:])
	return name[:maxFileName-len(hash)] + hash
}

// keyOfFileName is the reverse of fileName. It returns false for a truncated name, and for one that fileName never returns.
func keyOfFileName(name string) (string, bool) {
	key, err := url.PathUnescape(name)
	return key, err == nil && fileName(key) == name
}
