package manifest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// A file that is broken by an edit keeps its app as it was, until it is mended.
func ExampleDir() {
	path, err := os.MkdirTemp("", "apps")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(path)
	edit := func(content string) {
		if err := os.WriteFile(filepath.Join(path, "blue.json"), []byte(content), 0o600); err != nil {
			panic(err)
		}
	}
	dir, err := manifest.Open(path, manifest.Config{
		Report:    func(err error) { fmt.Println("problem:", err) },
		Recovered: func(file string) { fmt.Println("good again:", file) },
	})
	if err != nil {
		panic(err)
	}
	list := func() {
		manifests, err := dir.List(context.Background())
		fmt.Printf("%+v %v\n", manifests, err)
	}

	edit(`{"name": "blue", "replicas": 3, "port": 8001}`)
	list()
	edit(`{"name": "blue", "repl`)
	list()
	list() // the same problem is not reported again
	edit(`{"name": "blue", "replicas": 4, "port": 8001}`)
	list()
	// Output:
	// [{Name:blue Replicas:3 Port:8001 Message:}] <nil>
	// problem: manifest: blue.json: the file ends in the middle
	// [{Name:blue Replicas:3 Port:8001 Message:}] <nil>
	// [{Name:blue Replicas:3 Port:8001 Message:}] <nil>
	// good again: blue.json
	// [{Name:blue Replicas:4 Port:8001 Message:}] <nil>
}
