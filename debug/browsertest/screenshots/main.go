// Command screenshots takes the pictures of the page for the documentation. It needs Chromium.
//
//	go run -trimpath ./debug/browsertest/screenshots -dir docs/screenshots
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/setpoint-go/setpoint/debug/browsertest"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
)

func main() {
	dir := flag.String("dir", "docs/screenshots", "where to write the pictures")
	wait := flag.Duration("wait", 150*time.Second, "how long the program runs before the pictures are taken")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *wait+2*time.Minute)
	defer cancel()
	if err := run(ctx, *dir, *wait); err != nil {
		log.Fatal(err)
	}
}

// run writes the pictures to dir.
func run(ctx context.Context, dir string, wait time.Duration) error {
	s, err := scene.New()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	// It ends with ctx, and the last line waits for it.
	go func() { ended <- s.Manager.Run(ctx) }()
	defer func() { cancel(); <-ended }() // the hanging reconcile causes an error
	server := httptest.NewServer(s.Page)
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()

	b, err := browsertest.Start()
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, p := range []struct {
		name, path string
		look       browsertest.Look
	}{
		{"overview", "/", browsertest.Look{Width: 1100, Height: 760}},
		{"queue", "/queue?name=sites", browsertest.Look{Width: 1100, Height: 640}},
		{"key", "/key?queue=sites&key=sites/osaka", browsertest.Look{Width: 1100, Height: 900}},
		{"key-dark", "/key?queue=sites&key=sites/lisbon", browsertest.Look{Width: 900, Height: 720, Dark: true}},
		{"phone", "/queue?name=sites", browsertest.Look{Width: 390, Height: 720}},
	} {
		if err := take(ctx, b, server.URL+p.path, p.look, filepath.Join(dir, p.name+".png")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// take writes one picture.
func take(ctx context.Context, b *browsertest.Browser, url string, look browsertest.Look, file string) error {
	tab, err := b.Open(ctx, look)
	if err != nil {
		return err
	}
	if err := tab.Load(ctx, url); err != nil {
		return err
	}
	// Wait until the page says that it is live.
	if err := tab.Until(ctx, `document.getElementById("feed").textContent === "live"`); err != nil {
		return err
	}
	picture, err := tab.Picture(ctx)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(file, picture, 0o644), tab.Close(ctx))
}
