package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// This file is what docs/testing.md shows, and example_replicas_test.go what README.md does.

type Site struct {
	Servers int
	Status  struct{ Servers int } `store:"status"`
}

type Server struct{ Site string }

func NewSites(sites store.Store[Site], servers store.Store[Server]) (*controller.Controller[string], error) {
	seen, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := seen.Get(key)
		if !ok || site.Value.Status.Servers == site.Value.Servers {
			return controller.Result{}, nil // nothing to do
		}
		site.Value.Status.Servers = site.Value.Servers
		if _, err := sites.UpdateStatus(ctx, site); err != nil {
			return controller.Result{}, err
		}
		for i := range site.Value.Servers {
			server := store.Object[Server]{Key: fmt.Sprintf("%s-%d", key, i), Value: Server{Site: key}}
			if _, err := servers.Create(ctx, server); err != nil && !errors.Is(err, store.ErrExists) {
				return controller.Result{}, err
			}
		}
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(seen))
}

func TestSitesSurviveFaults(t *testing.T) {
	t.Skip("it finds the bug: see docs/testing.md")
	simtest.Run(t, sitesWorld)
}

func sitesWorld() simtest.World {
	return simtest.World{
		Systems: []simtest.System{{Name: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
			c, err := NewSites(simtest.Open[Site](env, "site"), simtest.Open[Server](env, "server"))
			return []simtest.Part{simtest.Loop(c)}, err
		}}},
		Steps: []simtest.Step{simtest.Create("site", store.Object[Site]{Key: "a", Value: Site{Servers: 2}})},
	}
}

func TestDocumentationShowsProgramAndOutput(t *testing.T) {
	page, err := os.ReadFile("../docs/testing.md")
	require.NoError(t, err)
	reference, err := os.ReadFile("README.md")
	require.NoError(t, err)
	page = append(page, reference...)
	program, err := os.ReadFile("sites_test.go")
	require.NoError(t, err)
	replicas, err := os.ReadFile("example_replicas_test.go")
	require.NoError(t, err)
	program = append(program, replicas...)
	quotes := strings.Split(string(page), "```go\n")[1:]
	require.NotEmpty(t, quotes)
	for _, quote := range quotes {
		code, _, _ := strings.Cut(quote, "```")
		require.Contains(t, strings.ReplaceAll(string(program), "\tt.Skip(\"it finds the bug: see docs/testing.md\")\n", ""), strings.TrimSpace(code))
	}
	report := simtest.Explore(t, sitesWorld)
	require.NotEmpty(t, report.Failures)
	require.Contains(t, string(page), strings.TrimSpace(report.Failures[0].String()))
	require.NotNil(t, replay(t, sitesWorld, "crash-after(sites update site/a#1)"))
}
