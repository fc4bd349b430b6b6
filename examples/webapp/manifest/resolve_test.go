package manifest_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// TestEveryEditOfThreeFilesIsResolved walks every state that three files, two names, and two ports can reach. In each
// state, it tries every simultaneous edit of all files, and checks the guarantees.
func TestEveryEditOfThreeFilesIsResolved(t *testing.T) {
	files := []string{"1.json", "2.json", "3.json"}
	const absent, broken = 0, 1 // from 2 on: a manifest
	content := func(choice int) manifest.Manifest {
		return manifest.Manifest{Name: string(rune('a' + (choice-2)%2)), Port: 1 + (choice-2)/2}
	}
	problem := &manifest.Error{File: "broken", Err: errors.New("broken")}

	seen := map[string]bool{"map[]": true}
	next := []map[string]manifest.Manifest{{}}
	steps := 0
	for len(next) > 0 {
		before := next[0]
		next = next[1:]
		for edit := range 6 * 6 * 6 {
			good := make(map[string]manifest.Manifest)
			bad := make(map[string]*manifest.Error)
			for i, choice := range []int{edit % 6, edit / 6 % 6, edit / 36} {
				switch {
				case choice == absent:
				case choice == broken:
					bad[files[i]] = problem
				default:
					good[files[i]] = content(choice)
				}
			}
			after, problems := manifest.Resolve(before, good, bad)
			if err := checkResolved(before, good, bad, after, problems); err != nil {
				t.Fatalf("before %v, good %v, bad %v: after %v, problems %v: %v", before, good, bad, after, problems, err)
			}
			steps++
			if id := fmt.Sprint(after); !seen[id] {
				seen[id] = true
				next = append(next, after)
			}
		}
	}
	if steps < 5000 {
		t.Fatalf("only %d steps", steps)
	}
}

func checkResolved(before, good map[string]manifest.Manifest, bad map[string]*manifest.Error, after map[string]manifest.Manifest, problems map[string]*manifest.Error) error {
	names, ports := make(map[string]string), make(map[int]string)
	for file, m := range after {
		if names[m.Name] != "" || ports[m.Port] != "" {
			return fmt.Errorf("%s shares a name or a port", file)
		}
		names[m.Name], ports[m.Port] = file, file
		if good[file] != m && before[file] != m {
			return fmt.Errorf("%s has what it never said", file)
		}
		if _, isGood := good[file]; !isGood && bad[file] == nil {
			return fmt.Errorf("%s is gone", file)
		}
	}
	for file, m := range good {
		switch is, in := after[file]; {
		case is != m && problems[file] == nil:
			return fmt.Errorf("%s is not followed, without a problem", file)
		case is == m && problems[file] != nil && before[file] != m:
			return fmt.Errorf("%s is followed in spite of its problem", file)
		case before[file] == m && (is != m || problems[file] != nil):
			return fmt.Errorf("%s has not changed, and lost what it had", file)
		case problems[file] != nil && (problems[file].File != file || !rival(file, m, problems[file].Field, good, before)):
			return fmt.Errorf("the problem of %s is not its own", file)
		case problems[file] != nil && is != before[file] || !in && before[file] != (manifest.Manifest{}):
			return fmt.Errorf("%s did not keep what it had", file)
		}
	}
	for file := range bad {
		if problems[file] != bad[file] || after[file] != before[file] {
			return fmt.Errorf("%s is bad, and did not keep what it had", file)
		}
	}
	// Without two good or kept files that clash, everything is followed.
	claims := maps.Clone(good)
	for file := range bad {
		if m, had := before[file]; had {
			claims[file] = m
		}
	}
	clash := false
	for a, ma := range claims {
		for b, mb := range claims {
			clash = clash || a != b && (ma.Name == mb.Name || ma.Port == mb.Port)
		}
	}
	if !clash && len(problems) > len(bad) {
		return errors.New("a problem without a conflict")
	}
	return nil
}

// rival reports whether another file claims, or had, the value that file wants.
func rival(file string, m manifest.Manifest, field string, claims ...map[string]manifest.Manifest) bool {
	for _, claim := range claims {
		for other, has := range claim {
			if other != file && (field == "name" && has.Name == m.Name || field == "port" && has.Port == m.Port) {
				return true
			}
		}
	}
	return false
}
