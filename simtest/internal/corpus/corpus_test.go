package corpus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/simtest/internal/corpus"
)

func TestWrittenPlansAreReadBack(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := corpus.Dir(`TestA/b="c d"`)
	if want := filepath.Join("testdata", "simtest", "TestA", "b=_c_d_"); dir != want {
		t.Fatalf("dir = %q, want %q", dir, want)
	}
	none, err := corpus.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(none) != 0 {
		t.Fatalf("none = %v, want none", none)
	}
	file, err := corpus.Write(dir, "crash-after(s create to/a#1)", "it broke\nbadly")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); got != "# it broke\n# badly\ncrash-after(s create to/a#1)\n" {
		t.Fatalf("string(text) = %q, want %q", got, "# it broke\n# badly\ncrash-after(s create to/a#1)\n")
	}
	again, err := corpus.Write(dir, "crash-after(s create to/a#1)", "another comment")
	if err != nil {
		t.Fatal(err)
	}
	if again != "" {
		t.Fatalf(`again = %q, want "": an existing file is unchanged`, again)
	}
	if err := os.Mkdir(filepath.Join(dir, "subtest"), 0o777); err != nil {
		t.Fatalf(`os.Mkdir(filepath.Join(dir, "subtest"), 0o777): %v`, err)
	}
	entries, err := corpus.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corpus.Entry{{File: file, Plan: "crash-after(s create to/a#1)"}}, entries); diff != "" {
		t.Fatalf("entries mismatch (-want +got):\n%s", diff)
	}
}

func TestFileInPlaceOfDirectoryIsAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("testdata", nil, 0o666); err != nil {
		t.Fatalf(`os.WriteFile("testdata", nil, 0o666): %v`, err)
	}
	_, err := corpus.Write(corpus.Dir("TestA"), "plan", "comment")
	if err == nil || !strings.Contains(err.Error(), "simtest: keep a plan that failed: ") {
		t.Fatalf("error = %v, want an error with %q", err, "simtest: keep a plan that failed: ")
	}
	_, err = corpus.Read(corpus.Dir("TestA"))
	if err == nil || !strings.Contains(err.Error(), "simtest: read the failed plans: ") {
		t.Fatalf("error = %v, want an error with %q", err, "simtest: read the failed plans: ")
	}
}
