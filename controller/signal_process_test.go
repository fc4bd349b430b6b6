//go:build unix

package controller_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// signalled is the variable of the environment that makes the test binary a program for signals.
const signalled = "CONTROLLER_TEST_SIGNALLED"

// TestMain runs the tests, or the program whose name is in the environment.
func TestMain(m *testing.M) {
	program := os.Getenv(signalled)
	if program == "" {
		os.Exit(m.Run())
	}
	err := controller.RunUntilSignal(context.Background(), func(ctx context.Context) error {
		fmt.Println("runs")
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		if program == "stuck" {
			select {}
		}
		return errors.New("the end")
	})
	fmt.Println(err)
	bufio.NewReader(os.Stdin).ReadString('\n') // until the test ends it
}

// process is such a program that runs.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func startProcess(t *testing.T, program string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), signalled+"="+program)
	_, err := cmd.StdinPipe() // stays open until Wait
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &process{cmd, bufio.NewScanner(out)}
}

// says returns the next line that the process prints.
func (p *process) says() string {
	p.lines.Scan()
	return p.lines.Text()
}

func TestTheSecondSignalExitsAProcessThatDoesNotEnd(t *testing.T) {
	p := startProcess(t, "stuck")
	require.Equal(t, "runs", p.says())
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Equal(t, "controller: received signal: interrupt", p.says())
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(), &exit)
	assert.Equal(t, 1, exit.ExitCode())
}

func TestSignalsDoWhatTheyDidBeforeAfterTheEnd(t *testing.T) {
	p := startProcess(t, "orderly")
	require.Equal(t, "runs", p.says())
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "controller: received signal: terminated", p.says())
	require.Equal(t, "the end", p.says(), "the process goes on, and decides itself")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(), &exit)
	assert.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal(), "it was killed by the signal")
}
