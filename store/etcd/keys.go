package etcd

import (
	"errors"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The elements of the keys under the prefix:
//
//	setpoint/layout                    "1"
//	setpoint/objects/KIND/live/KEY     a record
//	setpoint/objects/KIND/gone/KEY     a tombstone
//	setpoint/fences/LEASE              the recorded term, in decimal
//
// The "/" and "%" of a kind are escaped, so the next "/" ends the kind. A key or a lease comes last and unchanged: any bytes are allowed
// there, and the keys sort by their bytes. All objects of a kind are one range, so one watch sees them all.
const (
	layoutElement  = "layout"
	objectsElement = "objects"
	fencesElement  = "fences"

	live       = "live/"
	tombstones = "gone/"
)

// layout is the value of the layout key. Any other value means that this package does not understand the keys.
const layout = "1"

// keys makes the keys under a prefix.
type keys struct{ prefix string }

func (k keys) layout() string            { return k.prefix + "/" + layoutElement }
func (k keys) objects() string           { return k.prefix + "/" + objectsElement + "/" }
func (k keys) kind(kind string) string   { return k.objects() + escape(kind) + "/" }
func (k keys) fence(lease string) string { return k.prefix + "/" + fencesElement + "/" + lease }

// kindOf returns the kind whose prefix key begins with, or "" if key does not belong to an object.
func (k keys) kindOf(key string) string {
	rest, ok := strings.CutPrefix(key, k.objects())
	end := strings.IndexByte(rest, '/')
	if !ok || end < 0 {
		return ""
	}
	return key[:len(key)-len(rest)+end+1]
}

// escape returns kind without a slash. Two kinds never have the same result.
func escape(kind string) string {
	if !strings.ContainsAny(kind, "/%") {
		return kind
	}
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(kind)
}

// end returns the end of the range of all keys that begin with prefix, which is not empty and not all 0xff.
func end(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// checkPrefix refuses a prefix whose keys could belong to another one: "a" has keys that begin with "a/objects/", if objects is one of the
// elements that follow a prefix.
func checkPrefix(prefix string, elements ...string) error {
	for element := range strings.SplitSeq(prefix, "/") {
		if slices.Contains(elements, element) {
			return errors.New("must not have the element " + element)
		}
	}
	switch {
	case strings.HasSuffix(prefix, "/"):
		return errors.New("must not end with a slash")
	case len(prefix) > maxPrefix:
		return errors.New("must not have more than 256 bytes")
	}
	return nil
}

const maxPrefix = 256
