package house_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
)

const module = "github.com/setpoint-go/setpoint"

// tree is the repository as the rules see it. Hidden directories and testdata are left out.
type tree struct {
	dirs  []string // every directory, in order of path; "." is the root
	files map[string]string
	code  []*goFile // the Go files, in order of path
	fset  *token.FileSet
}

// goFile is one Go file.
type goFile struct {
	path   string // from the root, with slashes
	dir    string
	nested bool // in a module nested in this one
	test   bool
	ast    *ast.File
	src    []byte
}

// repository is the tree of this repository, which several tests read and none changes.
var repository = sync.OnceValues(func() (*tree, error) { return loadTree(os.DirFS("../..")) })

// loadTree reads and parses a tree.
func loadTree(fsys fs.FS) (*tree, error) {
	t := &tree{files: make(map[string]string), fset: token.NewFileSet()}
	nested := ""
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil && name != "." && !within(name, nested) {
				nested = name
			}
			t.dirs = append(t.dirs, name)
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		t.files[name] = string(src)
		if path.Ext(name) != ".go" {
			return nil
		}
		f := &goFile{
			path:   name,
			dir:    path.Dir(name),
			nested: nested != "" && strings.HasPrefix(name, nested+"/"),
			test:   strings.HasSuffix(name, "_test.go"),
			src:    src,
		}
		f.ast, err = parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		t.code = append(t.code, f)
		return err
	})
	return t, err
}

// library reports whether f is code that the users of the library link: not a test, not an example.
func (f *goFile) library() bool {
	return !f.test && !f.nested && f.dir != "." && !within(f.dir, "examples")
}

// imports yields the paths that f imports; those of the project without the module: "store/storetest".
func (f *goFile) imports() (own, other []string) {
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser has read it
		}
		if rest, ok := strings.CutPrefix(p, module+"/"); ok {
			own = append(own, rest)
		} else if p != module {
			other = append(other, p)
		} else {
			own = append(own, ".")
		}
	}
	return own, other
}

// at words a problem at a place in the code.
func (t *tree) at(pos token.Pos, format string, args ...any) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}

// within reports whether dir is top or stands below it.
func within(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }
