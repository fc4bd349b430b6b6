package effective_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chapters returns the chapters in the order of the guide.
func chapters() []chapter {
	return []chapter{
		levelsChapter(), syncedChapter(), staleChapter(), failureChapter(), crashChapter(),
		ownersChapter(), deletionChapter(), leaderChapter(), blastradiusChapter(), proofChapter(),
	}
}

func TestEachChapterHolds(t *testing.T) {
	for _, c := range chapters() {
		t.Run(c.dir, c.test)
	}
}

func TestEveryPageIsAChapterInTableOfContents(t *testing.T) {
	contents, err := os.ReadFile(filepath.Join(pages, "README.md"))
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(pages, "[0-9]*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	var tested []string
	for _, c := range chapters() {
		tested = append(tested, filepath.Join(pages, c.page))
		assert.Equal(t, 1, strings.Count(string(contents), "]("+c.page+") |"), "rows of %s in the table of contents", c.page)
	}
	assert.Equal(t, found, tested, "chapters that have a test")
}
