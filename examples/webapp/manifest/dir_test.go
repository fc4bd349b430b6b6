package manifest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

func TestOpenReadsTheManifests(t *testing.T) {
	path := t.TempDir()
	write := func(file, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(path, file), []byte(content), 0o600))
	}
	app := func(name string, port int) string {
		return fmt.Sprintf(`{"name": %q, "replicas": 1, "port": %d}`, name, port)
	}
	require.NoError(t, os.Mkdir(filepath.Join(path, "d"), 0o700))
	write("2.json", app("a", 2))
	write("1.json", app("b", 1))
	write(".3.json", app("c", 3))
	write("4.json~", app("d", 4))
	write("d/5.json", app("e", 5))
	write("README.md", "not a manifest")
	synctest.Test(t, func(t *testing.T) {
		source, err := manifest.Open(path, time.Second)
		require.NoError(t, err)
		list, err := source.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, []manifest.Manifest{{Name: "b", Replicas: 1, Port: 1}, {Name: "a", Replicas: 1, Port: 2}}, list.Items)

		write("1.json", `{"name": "b"`)
		write("big.json", app("f", 6)+strings.Repeat(" ", manifest.MaxSize))
		list, err = source.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list.Items, 2)
		problems := source.Problems()
		require.Len(t, problems, 2)
		require.EqualError(t, problems[0], "files: 1.json: manifest: 1.json: the file ends in the middle")
		require.ErrorContains(t, problems[1], "big.json")
		problem := new(manifest.Error)
		require.ErrorAs(t, problems[0], &problem)
	})
}

func TestOpenRequiresDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := manifest.Open(missing, time.Second)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, err.Error(), missing)
	require.NoError(t, os.WriteFile(missing, nil, 0o600))
	_, err = manifest.Open(missing, time.Second)
	require.EqualError(t, err, "manifest: open directory: open "+missing+": not a directory")
}
