package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDocumentationPicturesAreUpToDate(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "pictures")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, len(pictures), "files in docs/pictures")
	for name, draw := range pictures {
		have, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.True(t, string(have) == draw().String(), "docs/pictures/%s is stale: run go run ./internal/pictures docs/pictures", name)
	}
}

func TestPicturesAreWellFormed(t *testing.T) {
	c := newCanvas(10, 10, `<&">`)
	c.box(0, 0, 1, 1, "", "a < b", "</svg>")
	for decoder := xml.NewDecoder(strings.NewReader(c.String())); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}
