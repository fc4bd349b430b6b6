package featuregate_test

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/setpoint-go/setpoint/featuregate"
)

// The features of the program: a type of its own, and a constant for each.
type Feature int

const (
	CrashLoop Feature = iota
	Shards
	OldAPI
)

var features = []featuregate.Feature[Feature]{
	CrashLoop: {
		Name:        "CrashLoop",
		Description: "Back off when an instance crashes again and again.",
		History:     []featuregate.Phase{{Since: "1.2", Stage: featuregate.Alpha}, {Since: "1.4", Stage: featuregate.Beta}},
	},
	Shards: {
		Name:        "Shards",
		Description: "Share the tenants among all replicas.",
		History:     []featuregate.Phase{{Since: "1.4", Stage: featuregate.Alpha}},
		Requires:    []Feature{CrashLoop},
	},
	OldAPI: {
		Name: "OldAPI",
		History: []featuregate.Phase{
			{Since: "1.0", Stage: featuregate.GA}, {Since: "1.3", Stage: featuregate.Deprecated}, {Since: "1.5", Stage: featuregate.Removed},
		},
	},
}

func newGates(version string) *featuregate.Gates[Feature] {
	gates, err := featuregate.New(featuregate.Config[Feature]{
		Version: version, Features: features, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	return gates
}

func Example() {
	gates := newGates("1.4")

	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(gates, "feature-gates", gates.Usage())
	err := flags.Parse([]string{"-feature-gates=Shard=true"})
	fmt.Println(err)

	fmt.Println(flags.Parse([]string{"-feature-gates=Shards=true"}))
	fmt.Println(gates.Lock())
	if gates.Enabled(Shards) {
		fmt.Println("this replica takes a share")
	}
	// Output:
	// invalid value "Shard=true" for flag -feature-gates: featuregate: unknown feature "Shard": did you mean Shards?
	// <nil>
	// <nil>
	// this replica takes a share
}

func ExampleGates_Set() {
	gates := newGates("1.5")
	fmt.Println(gates.Set("CrashLoop=false, AllAlpha=true"))
	fmt.Println(gates)
	fmt.Println(gates.Set("OldAPI=true"))
	// Output:
	// <nil>
	// AllAlpha=true,CrashLoop=false
	// featuregate: OldAPI was removed in version 1.5
}

func ExampleGates_Lock() {
	gates := newGates("1.4")
	_ = gates.SetMap(map[string]bool{"CrashLoop": false, "Shards": true})
	fmt.Println(gates.Lock())
	// Output:
	// featuregate: Shards requires CrashLoop, which is off
}

func ExampleGates_Emulate() {
	gates := newGates("1.4")
	fmt.Println(gates.Enabled(CrashLoop)) // beta
	fmt.Println(gates.Emulate("1.2"))
	fmt.Println(gates.Enabled(CrashLoop)) // alpha
	fmt.Println(gates.Set("Shards=true")) // the version may still change
	fmt.Println(gates.Lock())
	// Output:
	// true
	// <nil>
	// false
	// <nil>
	// featuregate: Shards is new in version 1.4, and this is version 1.2
}

func ExampleGates_SetFromEnv() {
	os.Setenv("SHOP_FEATURE_GATES", "CrashLoop=off")
	defer os.Unsetenv("SHOP_FEATURE_GATES")
	fmt.Println(newGates("1.4").SetFromEnv("SHOP_FEATURE_GATES"))
	// Output:
	// featuregate: SHOP_FEATURE_GATES: CrashLoop is "off", must be true or false
}

func ExampleGates_All() {
	alpha := func(s featuregate.Status) bool { return s.Stage == featuregate.Alpha }
	for s := range newGates("1.4").All() {
		fmt.Println(s.Name, s.Since, s.Enabled, alpha(s))
	}
	// Output:
	// CrashLoop 1.4 true false
	// OldAPI 1.3 true false
	// Shards 1.4 false true
}

func ExampleGates_Usage() {
	fmt.Println(newGates("1.4").Usage())
	// Output:
	// turn features on and off, as in `Name=true,Other=false`. AllAlpha and AllBeta stand for all features of a stage.
	// CrashLoop (Beta since 1.4, default on): Back off when an instance crashes again and again.
	// OldAPI (Deprecated since 1.3, default on)
	// Shards (Alpha since 1.4, default off): Share the tenants among all replicas.
}

// In a test, t is a *testing.T.
func ExampleGates_Override() {
	gates := newGates("1.4")
	testShards := func(t featuregate.TB) {
		gates.Override(t, Shards, true)
		fmt.Println(gates.Enabled(Shards))
	}
	t := &aTest{}
	testShards(t)
	t.end()
	fmt.Println(gates.Enabled(Shards))
	// Output:
	// true
	// false
}

// aTest is as much of a *testing.T as Override needs.
type aTest struct{ end func() }

func (t *aTest) Helper()                           {}
func (t *aTest) Name() string                      { return "TestShards" }
func (t *aTest) Cleanup(end func())                { t.end = end }
func (t *aTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
