package claim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// The names of the two headers. In metadata of gRPC, they are in lower case.
const (
	LeaseHeader = "Leader-Lease"
	TermHeader  = "Leader-Term"
)

// Text returns the values of the two headers. Bytes of the lease that a header cannot hold are percent-encoded.
func Text(f store.Fence) (lease, term string) {
	var b strings.Builder
	for i := range len(f.Lease) {
		if c := f.Lease[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String(), strconv.FormatUint(f.Term, 10)
}

// Parse reads the values of the two headers, or reports that there are none.
func Parse(lease, term []string) (f store.Fence, found bool, err error) {
	if len(lease) == 0 && len(term) == 0 {
		return f, false, nil
	}
	if len(lease) != 1 || len(term) != 1 {
		return f, false, fmt.Errorf("there are %d values of %s and %d of %s, must be one of each", len(lease), LeaseHeader, len(term), TermHeader)
	}
	if f.Lease, err = parseLease(lease[0]); err != nil {
		return f, false, fmt.Errorf("%s %w", LeaseHeader, err)
	}
	if f.Term, err = strconv.ParseUint(term[0], 10, 64); err != nil {
		return f, false, fmt.Errorf("%s is not a decimal number of 64 bits", TermHeader)
	}
	return f, true, nil
}

var errEncoding = errors.New("is not percent-encoded")

func parseLease(text string) (string, error) {
	if len(text) > 3*backend.MaxKey {
		return "", fmt.Errorf("is longer than %d bytes", backend.MaxKey)
	}
	lease := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case plain(c):
			lease = append(lease, c)
		case c == '%' && i+2 < len(text):
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", errEncoding
			}
			lease = append(lease, byte(n))
			i += 2
		default:
			return "", errEncoding
		}
	}
	switch {
	case len(lease) == 0:
		return "", errors.New("is empty")
	case len(lease) > backend.MaxKey:
		return "", fmt.Errorf("is longer than %d bytes", backend.MaxKey)
	}
	return string(lease), nil
}

// plain reports whether a byte of a lease stands for itself. A comma does not, because proxies join headers with it.
func plain(c byte) bool { return c > ' ' && c < 0x7f && c != '%' && c != ',' }
