package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDocumentationPicturesAreUpToDate(t *testing.T) {
	files, err := filepath.Glob("*.svg")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(pictures) {
		t.Errorf("len(files) = %d, want %d: %v: files in docs/pictures", len(files), len(pictures), files)
	}
	for name, draw := range pictures {
		have, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != draw().String() {
			t.Errorf("docs/pictures/%s is stale: run go run ./docs/pictures docs/pictures", name)
		}
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
		if err != nil {
			t.Fatal(err)
		}
	}
}
