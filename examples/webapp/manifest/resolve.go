package manifest

import (
	"fmt"
	"maps"
	"slices"
)

// resolve returns the manifests in effect after files were read, and the problems of the files. before has the
// manifests in effect until then, of which no two share a name or a port. It changes neither argument.
//
// Every good file proposes its content, and every bad file proposes the manifest that was in effect for it. While two
// proposals share a name or a port, one of them yields: the one that did not have it before or, if neither had it, the
// one of the later file. A file that yields falls back to the manifest that was in effect for it, if any. It had that
// manifest before, so it never yields again. So each file yields at most once, and the result is free of conflicts.
// Files that swap names or ports make proposals that do not clash, so all of them take effect at once.
func resolve(before map[string]Manifest, files map[string]reading) (after map[string]Manifest, problems map[string]*Error) {
	after = make(map[string]Manifest)
	problems = make(map[string]*Error)
	fallBack := func(file string, problem *Error) {
		problems[file] = problem
		if was, had := before[file]; had {
			after[file] = was
		} else {
			delete(after, file)
		}
	}
	for file, r := range files {
		if r.problem == nil {
			after[file] = r.manifest
		} else {
			fallBack(file, r.problem)
		}
	}
	for {
		problem := clash(before, after)
		if problem == nil {
			return after, problems
		}
		fallBack(problem.File, problem)
	}
}

// clash returns the problem of a file that must yield, or nil if no two proposals share anything.
func clash(before, proposals map[string]Manifest) *Error {
	names := make(map[string]string) // file by name
	ports := make(map[int]string)    // file by port
	for _, file := range slices.Sorted(maps.Keys(proposals)) {
		p := proposals[file]
		if other, taken := names[p.Name]; taken {
			return yield(other, file, before[file].Name == p.Name, "name", fmt.Sprintf("%q", p.Name))
		}
		if other, taken := ports[p.Port]; taken {
			return yield(other, file, before[file].Port == p.Port, "port", fmt.Sprint(p.Port))
		}
		names[p.Name], ports[p.Port] = file, file
	}
	return nil
}

// yield returns the problem of one of two files that propose the same value of a field: the later one, unless it had
// the value before.
func yield(earlier, later string, laterHad bool, field, value string) *Error {
	if laterHad {
		earlier, later = later, earlier
	}
	return &Error{File: later, Field: field, Err: fmt.Errorf("%s is taken by %s", value, quoted(earlier))}
}
