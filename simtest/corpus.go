package simtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// corpusEntry is one file.
type corpusEntry struct {
	file string // with its directory
	plan string // the text, without comments
}

// corpusDir returns the directory of a test, by its name, below testdata in the current directory.
func corpusDir(test string) string {
	return filepath.Join("testdata", "simtest", filepath.FromSlash(corpusName(test)))
}

// corpusName returns the name of a test without the characters that some file systems refuse. A subtest keeps its slash.
func corpusName(test string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-_/=", r):
			return r
		default:
			return '_'
		}
	}, test)
}

// readCorpus returns the files of a directory, in order of name. It returns nothing if there is no such directory.
func readCorpus(dir string) ([]corpusEntry, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("simtest: read the failed plans: %w", err)
	}
	var entries []corpusEntry
	for _, f := range files {
		if f.IsDir() { // of a subtest
			continue
		}
		name := filepath.Join(dir, f.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("simtest: read a failed plan: %w", err)
		}
		var plan []string
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				plan = append(plan, line)
			}
		}
		entries = append(entries, corpusEntry{name, strings.Join(plan, " ")})
	}
	return entries, nil
}

// writeCorpus writes a plan with a comment, and returns the name of the file, or "" if it existed before.
func writeCorpus(dir, plan, comment string) (file string, err error) {
	sum := sha256.Sum256([]byte(plan))
	file = filepath.Join(dir, fmt.Sprintf("%x", sum[:8]))
	if _, err := os.Stat(file); err == nil {
		return "", nil
	}
	text := "# " + strings.ReplaceAll(strings.TrimSpace(comment), "\n", "\n# ") + "\n" + plan + "\n"
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("simtest: keep a plan that failed: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return "", fmt.Errorf("simtest: keep a plan that failed: %w", err)
	}
	return file, nil
}
