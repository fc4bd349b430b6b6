package effective_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const pages = "../../docs/effective"

// Package chapter compares a page with the programs and the plans. This test looks that no chapter leaves that out.
func TestEachChapterHasATestAndALineInTheTableOfContents(t *testing.T) {
	contents, err := os.ReadFile(filepath.Join(pages, "README.md"))
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(pages, "[0-9]*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	tests, err := filepath.Glob("*/*_test.go")
	require.NoError(t, err)
	tested := make(map[string]int)
	for _, file := range tests {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`chapter\.Test\(t, chapter\.Chapter\{\s*Page: +"([^"]+)"`).FindAllStringSubmatch(string(src), -1) {
			tested[m[1]]++
		}
	}
	for _, file := range found {
		name := filepath.Base(file)
		assert.Equal(t, 1, tested[name], "tests of %s", name)
		assert.Equal(t, 1, strings.Count(string(contents), "]("+name+") |"), "rows of %s in the table of contents", name)
	}
	assert.Len(t, tested, len(found), "chapters that have a test")
}
