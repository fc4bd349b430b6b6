package effective_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCodeBlocksHaveLanguageAndText(t *testing.T) {
	var found []string
	for language, code := range blocks("```go\na\nb\n```\n\nprose with `code`\n\n```text\nc\n```\nmore\n```\nd\n```") {
		found = append(found, language, code)
	}
	assert.Equal(t, []string{"go", "a\nb", "text", "c", "", "d"}, found)
}

func TestQuotesAreConsecutiveWholeLines(t *testing.T) {
	program := []string{"func f() {\n\tone()\n\ttwo()\n\n\tthree()\n}\n", "func g() {}\n"}
	for quote, want := range map[string]bool{
		"one()\ntwo()\n":       true,
		"\t\tone()\n\t\ttwo()": true, // indented otherwise
		"two()\n\nthree()":     true,
		"func g() {}":          true,
		"two()\nthree()":       false, // there is a line between them
		"one()\nthree()":       false,
		"ne()\ntwo()":          false, // not a whole line
		"three()\nfunc g() {}": false, // of two files
		"four()":               false,
	} {
		assert.Equal(t, want, quotes(program, quote), quote)
	}
}
