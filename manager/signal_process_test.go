//go:build unix

package manager_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/manager"
)

// signaled is the variable of the environment that makes the test binary a program for signals.
const signaled = "MANAGER_TEST_SIGNALED"

// TestMain runs the tests, or a program with the two lines that the package documentation shows.
func TestMain(m *testing.M) {
	program := os.Getenv(signaled)
	if program == "" {
		if !raceEnabled {
			runtime.GOMAXPROCS(1) // in a bubble, a second processor would look for work in vain, and take a fifth of the CPU time
		}
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	managed, err := manager.New(manager.Config{}, manager.Func("program", func(ctx context.Context) error {
		fmt.Println("runs")
		<-ctx.Done()
		stop() // as the line above does, a moment later
		fmt.Println("stops")
		if program == "stuck" {
			select {}
		}
		return nil
	}))
	if err == nil {
		err = managed.Run(ctx)
	}
	fmt.Println(err)
}

func TestSecondSignalEndsProcess(t *testing.T) {
	for program, ends := range map[string]func(t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner){
		"orderly": func(t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner) {
			require.True(t, lines.Scan())
			assert.Equal(t, "<nil>", lines.Text())
			require.NoError(t, cmd.Wait())
		},
		"stuck": func(t *testing.T, cmd *exec.Cmd, _ *bufio.Scanner) {
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			assert.Equal(t, syscall.SIGINT, exit.Sys().(syscall.WaitStatus).Signal())
		},
	} {
		t.Run(program, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), signaled+"="+program)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			require.Equal(t, "runs", lines.Text())
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.True(t, lines.Scan())
			require.Equal(t, "stops", lines.Text())
			ends(t, cmd, lines)
		})
	}
}
