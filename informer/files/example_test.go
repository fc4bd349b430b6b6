package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
)

type Site struct {
	Name    string
	Servers int
}

func siteName(s Site) string { return s.Name }

// decodeSite refuses what it does not know: a misspelled field is a mistake.
func decodeSite(_ string, data []byte) ([]Site, error) {
	var site Site
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	err := in.Decode(&site)
	return []Site{site}, err
}

// A file that is broken by an edit keeps its object as it was, until it is mended.
func Example() {
	dir, err := os.MkdirTemp("", "sites")
	check(err)
	defer os.RemoveAll(dir)
	write := func(content string) {
		check(os.WriteFile(filepath.Join(dir, "berlin.json"), []byte(content), 0o600))
	}
	write(`{"Name": "berlin", "Servers": 3}`)

	source, err := files.New(dir, decodeSite, siteName, files.Config[Site]{})
	check(err)
	sites, err := informer.New(source, siteName, informer.Config{Name: "sites", OnError: func(error) {}})
	check(err)
	calls := make(chan string, 10)
	_, err = sites.AddHandler(informer.Handler[string, Site]{
		OnAdd:    func(s Site, _ bool) { calls <- fmt.Sprint("add ", s) },
		OnUpdate: func(_, s Site) { calls <- fmt.Sprint("update ", s) },
		OnDelete: func(d cache.Tombstone[string, Site]) { calls <- fmt.Sprint("delete ", d.Key) },
	})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	fmt.Println(<-calls)

	write(`{"Name": "berlin", "Serv`)
	check(sites.CatchUp(ctx)) // a program need not wait; an example has no patience
	site, _ := sites.Get("berlin")
	fmt.Println(site, sites.Unread("berlin"))
	write(`{"Name": "berlin", "Servers": 5}`)
	check(sites.CatchUp(ctx))
	fmt.Println(<-calls, sites.Unread("berlin"))

	cancel()
	<-ended
	// Output:
	// add {berlin 3}
	// {berlin 3} files: berlin.json: unexpected EOF
	// update {berlin 5} <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
