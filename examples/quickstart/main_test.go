package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func Example() {
	main()
	// Output:
	// berlin: from 0 servers to 3
	// berlin: from 3 servers to 5
	// berlin: from 5 servers to 0
}

// The code in the README is this program, to the letter.
func TestTheReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(program), "\n"), 60)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+string(program)+"```\n")
}
