//go:build unix

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestProgramReconcilesEditsUntilInterrupted(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
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
	lines := bufio.NewReader(out)
	prints := func(want string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); line != want || err != nil {
			t.Fatalf("the program prints %q (%v), want %q", line, err, want)
		}
	}
	berlin := filepath.Join(tmp, "sites", "berlin.json")
	prints("edit the files in " + filepath.Dir(berlin) + "\n")
	prints("berlin: from 0 servers to 3\n")
	if err := os.WriteFile(berlin, []byte(`{"Servers": 5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	prints("berlin: from 3 servers to 5\n")
	if err := os.Remove(berlin); err != nil {
		t.Fatal(err)
	}
	prints("berlin: from 5 servers to 0\n")
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
	if got := strings.Count(string(program), "\n"); got > 70 {
		t.Fatalf(`strings.Count(string(program), "\n") = %d, want at most 70`, got)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```go\n" + string(program) + "```\n"; !strings.Contains(string(readme), want) {
		t.Fatalf("README.md does not contain the program:\n%s", want)
	}
}
