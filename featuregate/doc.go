// Package featuregate turns features of a program on and off while they mature.
//
// A program ships a feature before it trusts the feature, and keeps a switch for as long as users may need it. The switch follows the life
// of the feature. The stage of a feature decides the default, and who may change it:
//
//	stage       default            may be set    a setting
//	Alpha       off                yes           is logged as a warning: the feature may change or be removed
//	Beta        on                 yes           is logged as a warning: the setting will lose its effect
//	GA          on                 only to true  is logged as a warning: it has no effect
//	Deprecated  off after Alpha,   yes           is logged as a warning: the feature will be removed
//	            or else on
//	Removed     on right after GA, no            is an error that names the version that removed the feature
//	            or else off
//
// The words are those of Kubernetes
// (https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/).
//
// # Usage
//
// Declare a type for the features of the program, and a constant for each feature. The compiler then finds a misspelled feature, and a
// feature of another set:
//
//	type Feature int
//
//	const (
//		CrashLoop Feature = iota
//		Shards
//	)
//
//	gates, err := featuregate.New(featuregate.Config[Feature]{
//		Version: "1.4",
//		Features: []featuregate.Feature[Feature]{
//			CrashLoop: {
//				Name:        "CrashLoop",
//				Description: "Back off when an instance crashes again and again.",
//				History:     []featuregate.Phase{{Since: "1.2", Stage: featuregate.Alpha}, {Since: "1.4", Stage: featuregate.Beta}},
//			},
//			Shards: {
//				Name:     "Shards",
//				History:  []featuregate.Phase{{Since: "1.4", Stage: featuregate.Alpha}},
//				Requires: []Feature{CrashLoop},
//			},
//		},
//	})
//	...
//	flag.Var(gates, "feature-gates", gates.Usage())
//	flag.Func("emulate", "behave as this older `version`", gates.Emulate) // optional
//	...
//	err = gates.SetFromEnv("SHOP_FEATURE_GATES") // before flag.Parse, so that the flag wins
//	flag.Parse()
//	err = gates.Lock() // after all inputs: checks them against each other, and logs what is on
//	...
//	if gates.Enabled(CrashLoop) {
//
// The flag then takes -feature-gates=CrashLoop=false,Shards=true. The names AllAlpha and AllBeta stand for all features of
// the stage that have no setting of their own.
//
// # Guarantees
//
//  1. Every setting is checked as a whole. If one name or value in it is wrong in every version that the program may emulate, no part of it
//     takes effect. [Gates.Lock] checks the rest, so settings and [Gates.Emulate] may come in any order: a setting that the version in force
//     does not allow has no effect, and is an error of Lock.
//  2. A later setting of a feature replaces an earlier one. A setting of a feature wins over AllAlpha and AllBeta, in any order.
//  3. After [Gates.Lock], only [Gates.Override] changes a feature, for the duration of a test.
//  4. While a program emulates an older version, each feature has the stage that it had in that version. A feature that is newer
//     than that version is off, and cannot be set. A feature that the program has removed stays removed.
//  5. No state is global. Two Gates share nothing, so tests and embedded programs do not disturb each other.
package featuregate
