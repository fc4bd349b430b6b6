package featuregate

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// version is a version of a program: major, minor, patch.
type version [3]int

// parseVersion reads "1", "1.4", "v1.4.2" and "1.4.2-rc.1+linux", of which it ignores the suffix: a release candidate has the
// features of the release.
func parseVersion(s string) (version, error) {
	var v version
	core := strings.TrimPrefix(s, "v")
	if i := strings.IndexAny(core, "-+"); i >= 0 {
		core = core[:i]
	}
	parts := strings.Split(core, ".")
	if len(parts) > len(v) {
		return version{}, fmt.Errorf("%q is not a version such as 1.4", s)
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return version{}, fmt.Errorf("%q is not a version such as 1.4", s)
		}
		v[i] = int(n)
	}
	return v, nil
}

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v[0], w[0]), cmp.Compare(v[1], w[1]), cmp.Compare(v[2], w[2]))
}

// String returns the version without a zero patch.
func (v version) String() string {
	if v[2] == 0 {
		return fmt.Sprintf("%d.%d", v[0], v[1])
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}
