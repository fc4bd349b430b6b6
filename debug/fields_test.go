package debug_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/debug"
)

// fieldsOf adds the names of the fields of t in JSON, and of what is in them.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool, names map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasSuffix(t.PkgPath(), "/debug") || seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name != "" {
			names[name] = true
		}
		fieldsOf(f.Type, seen, names)
	}
}

func TestDocumentationListsEveryJSONField(t *testing.T) {
	names := make(map[string]bool)
	for _, page := range debug.EmptyPages() {
		fieldsOf(reflect.TypeOf(page), make(map[reflect.Type]bool), names)
	}
	text, err := os.ReadFile("../docs/debug.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## JSON\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range names {
		assert.Contains(t, section, "`"+name+"`", "an undocumented field")
	}
	word := regexp.MustCompile("`([^`]+)`")
	described := 0
	for line := range strings.Lines(section) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `") {
			for _, m := range word.FindAllStringSubmatch(first, -1) {
				assert.True(t, names[m[1]], "there is no field %s", m[1])
				described++
			}
		}
	}
	assert.Greater(t, described, 50)
}
