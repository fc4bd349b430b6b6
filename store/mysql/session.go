package mysql

import (
	"context"
	"fmt"
)

// failed words the error of a call. If ctx has ended, the error wraps its cause.
func failed(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("mysql: %s: %w", doing, err)
}
