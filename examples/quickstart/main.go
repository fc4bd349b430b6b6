// Command quickstart keeps the desired number of servers running at each site, until Ctrl-C. Each file of a directory is a site: edit it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/manager"
)

// Site is the desired state of a site.
type Site struct {
	Name    string `json:"-"` // that of the file
	Servers int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := filepath.Join(os.TempDir(), "sites")
	check(os.MkdirAll(dir, 0o755))
	check(os.WriteFile(filepath.Join(dir, "berlin.json"), []byte(`{"Servers": 3}`), 0o644))
	fmt.Println("edit the files in", dir)
	source, err := files.New(dir, decode, name, files.Config[Site]{Empty: true}) // the last file may be removed, too
	check(err)
	cached, err := informer.New(source, name, informer.Config{}) // mirrors the directory
	check(err)
	world := map[string]int{} // stands in for an API, a database, or machines
	reconcile := func(_ context.Context, name string) (controller.Result, error) {
		site, _ := cached.Get(name) // a deleted site wants no servers
		if want, is := site.Servers, world[name]; want != is {
			fmt.Printf("%s: from %d servers to %d\n", name, is, want)
			world[name] = want // if you return an error, the site is reconciled again after a backoff
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", reconcile, controller.Config[string]{}, controller.For(cached))
	check(err)
	m, err := manager.New(manager.Config{}, c) // runs the controller and its informer
	check(err)
	check(m.Run(ctx))
}

func name(s Site) string { return s.Name }

func decode(path string, data []byte) ([]Site, error) {
	site := Site{Name: strings.TrimSuffix(path, ".json")}
	if err := json.Unmarshal(data, &site); err != nil {
		return nil, err // a site that cannot be read keeps its servers
	}
	return []Site{site}, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
