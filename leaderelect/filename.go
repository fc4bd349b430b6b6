package leaderelect

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxFileName bounds an escaped key, so that with its suffix it fits in the 255 bytes that file systems allow.
const maxFileName = 200

// fileName maps every key to a file name of its own, without suffix. Lower-case letters, digits, '-' and '_' stand for
// themselves, as do dots inside; any other byte is %xx. So no name leaves the directory or is hidden, and two names
// differ in more than case. A key that is too long is cut, and told apart by '~' and its SHA-256. The empty key is "~".
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
