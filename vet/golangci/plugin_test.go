package golangci_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"

	"github.com/setpoint-go/setpoint/vet"
	_ "github.com/setpoint-go/setpoint/vet/golangci"
)

func TestPluginHasAllAnalyzers(t *testing.T) {
	newPlugin, err := register.GetPlugin("setpoint")
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := newPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	analyzers, err := plugin.BuildAnalyzers()
	if err != nil || len(analyzers) != len(vet.Analyzers()) {
		t.Errorf("%d analyzers, %v; must be %d", len(analyzers), err, len(vet.Analyzers()))
	}
	if mode := plugin.GetLoadMode(); mode != register.LoadModeTypesInfo {
		t.Errorf("the load mode is %s", mode)
	}
}
