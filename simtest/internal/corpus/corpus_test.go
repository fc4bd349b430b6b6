package corpus_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/simtest/internal/corpus"
)

func TestWrittenPlansAreReadBack(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := corpus.Dir(`TestA/b="c d"`)
	require.Equal(t, filepath.Join("testdata", "simtest", "TestA", "b=_c_d_"), dir)
	none, err := corpus.Read(dir)
	require.NoError(t, err)
	require.Empty(t, none)
	file, err := corpus.Write(dir, "crash-after(s create to/a#1)", "it broke\nbadly")
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "# it broke\n# badly\ncrash-after(s create to/a#1)\n", string(text))
	again, err := corpus.Write(dir, "crash-after(s create to/a#1)", "another comment")
	require.NoError(t, err)
	require.Empty(t, again, "an existing file is unchanged")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "subtest"), 0o777))
	entries, err := corpus.Read(dir)
	require.NoError(t, err)
	require.Equal(t, []corpus.Entry{{File: file, Plan: "crash-after(s create to/a#1)"}}, entries)
}

func TestFileInPlaceOfDirectoryIsAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("testdata", nil, 0o666))
	_, err := corpus.Write(corpus.Dir("TestA"), "plan", "comment")
	require.ErrorContains(t, err, "simtest: keep a plan that failed: ")
	_, err = corpus.Read(corpus.Dir("TestA"))
	require.ErrorContains(t, err, "simtest: read the failed plans: ")
}
