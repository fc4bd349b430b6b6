package wait_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/wait"
)

// Ten machines should be rented, and there is money for two. SlowStart finds out after three calls, not after ten, and what was expected of
// the rest can be taken back.
func ExampleSlowStart() {
	rent := func(_ context.Context, i int) error {
		if i >= 2 {
			return errors.New("no money left")
		}
		return nil
	}
	done, skipped, err := wait.SlowStart(context.Background(), 10, rent)
	fmt.Println(done, "done,", skipped, "skipped:", err)
	// Output: 2 done, 7 skipped: no money left
}
