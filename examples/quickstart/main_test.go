//go:build unix

package main

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramReconcilesUntilInterrupted(t *testing.T) {
	out, in, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = in
	defer func() { os.Stdout = stdout }()
	ended := make(chan struct{})
	go func() { // ends with the program; the test waits for it
		main()
		close(ended)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "berlin: from 0 servers to 3\n", line)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	<-ended
}

// The code in the README is a verbatim copy of this program.
func TestReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(program), "\n"), 60)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+string(program)+"```\n")
}
