//go:build unix

package main

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestProgramReconcilesUntilInterrupted(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = in
	defer func() { os.Stdout = stdout }()
	ended := make(chan struct{})
	go func() { // ends with the program; the test waits for it
		main()
		close(ended)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if line != "berlin: from 0 servers to 3\n" {
		t.Fatalf(`line = %q, want "berlin: from 0 servers to 3\n"`, line)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatalf("syscall.Kill(os.Getpid(), syscall.SIGINT): %v", err)
	}
	<-ended
}

// The code in the README is a verbatim copy of this program.
func TestReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(program), "\n"); got > 60 {
		t.Fatalf(`strings.Count(string(program), "\n") = %d, want at most 60`, got)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```go\n" + string(program) + "```\n"; !strings.Contains(string(readme), want) {
		t.Fatalf("README.md does not contain the program:\n%s", want)
	}
}
