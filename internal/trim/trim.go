package trim

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/store/backend"
)

// History writes and deletes records of a kind, whose keys begin with "filler", until b has dropped all other changes of the kind. kept is
// the number of changes that b keeps.
func History(b backend.Backend, kind string, kept int) error {
	for i := range kept/2 + 1 {
		for _, deleted := range []bool{false, true} {
			_, err := b.Transact(context.Background(), kind, fmt.Sprint("filler", i), nil,
				func(have backend.Record) (*backend.Record, error) {
					next := have
					if next.Deleted = deleted; !deleted {
						next.Meta, next.Value = []byte("{}"), []byte("{}")
					}
					return &next, nil
				})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
