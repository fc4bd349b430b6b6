package simtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWrittenPlansAreReadBack(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := corpusDir(`TestA/b="c d"`)
	if want := filepath.Join("testdata", "simtest", "TestA", "b=_c_d_"); dir != want {
		t.Fatalf("dir = %q, want %q", dir, want)
	}
	if entries, err := readCorpus(dir); err != nil || len(entries) != 0 {
		t.Fatalf("readCorpus = %v, %v, want nothing", entries, err)
	}
	file, err := writeCorpus(dir, "crash-after(s create to/a#1)", "it broke\nbadly")
	if err != nil {
		t.Fatal(err)
	}
	const want = "# it broke\n# badly\ncrash-after(s create to/a#1)\n"
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Fatalf("the file has %q, %v, want %q", text, err, want)
	}
	if again, err := writeCorpus(dir, "crash-after(s create to/a#1)", "another comment"); err != nil || again != "" {
		t.Fatalf(`writeCorpus = %q, %v, want "": an existing file is unchanged`, again, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "subtest"), 0o777); err != nil {
		t.Fatal(err)
	}
	entries, err := readCorpus(dir)
	if err != nil || !slices.Equal(entries, []corpusEntry{{file, "crash-after(s create to/a#1)"}}) {
		t.Fatalf("readCorpus = %v, %v", entries, err)
	}
}

func TestFileInPlaceOfDirectoryIsAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("testdata", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := writeCorpus(corpusDir("TestA"), "plan", "comment"); err == nil || !strings.Contains(err.Error(), "simtest: keep a plan that failed: ") {
		t.Errorf("writeCorpus: %v", err)
	}
	if _, err := readCorpus(corpusDir("TestA")); err == nil || !strings.Contains(err.Error(), "simtest: read the failed plans: ") {
		t.Errorf("readCorpus: %v", err)
	}
}
