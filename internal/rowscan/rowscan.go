package rowscan

import (
	"context"
	"fmt"
	"reflect"

	"github.com/setpoint-go/setpoint/informer"
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

// AddTo adds the object of a row to a page of a list. If scan cannot read row, it reads key, the same row with only the columns of its key, and
// the object is unread. If it cannot read that either, the page has something missing.
func AddTo[R, T any](page *informer.List[T], scan func(R) (T, error), row, key R) {
	obj, err := Object(scan, row)
	if err == nil {
		page.Items = append(page.Items, obj)
	} else if obj, missing := Key(scan, key); missing == nil {
		page.Unread = append(page.Unread, informer.Unread[T]{Object: obj, Err: err})
	} else {
		page.Missing = append(page.Missing, fmt.Errorf("scan cannot read a row: %w; nor the row with only its key: %w", err, missing))
	}
}
