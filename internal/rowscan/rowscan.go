package rowscan

import (
	"context"
	"reflect"

	"github.com/setpoint-go/setpoint/wait"
)

// Object returns what scan makes of a row, which may be only a key.
func Object[R, T any](scan func(R) (T, error), row R) (obj T, err error) {
	err = wait.Call(context.Background(), func(context.Context) error {
		obj, err = scan(row)
		return err
	})
	return obj, err
}

// Key returns what scan makes of a row that has only a key. An error does not matter if scan knows the key all the same.
func Key[R, T any](scan func(R) (T, error), row R) (obj T, err error) {
	if obj, err = Object(scan, row); !reflect.ValueOf(&obj).Elem().IsZero() {
		return obj, nil
	}
	return obj, err
}
