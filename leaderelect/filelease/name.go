package filelease

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// maxFileName bounds an escaped key, so that with its suffix it fits in the 255 bytes that file systems allow.
const maxFileName = 200

// fileName maps every key to a file name of its own, without suffix. Lower-case letters, digits, '-' and '_' stand for
// themselves, and so do dots that are not the first byte. Any other byte is %xx. So no name leaves the directory or is
// hidden, and no two names differ only in case. A key that is too long is cut, and ends with '~' and its SHA-256. The
// empty key is "~".
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

// keyOfFileName is the reverse of fileName. It is false for a name that is cut, or that fileName does not return.
func keyOfFileName(name string) (string, bool) {
	key, err := url.PathUnescape(name)
	return key, err == nil && fileName(key) == name
}
