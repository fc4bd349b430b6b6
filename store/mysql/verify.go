package mysql

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// rowHashes has a hash of each row, under a hash of its key.
type rowHashes map[uint64]uint64

// remembered is what a list or a watch has reported up to a version.
type remembered struct {
	at      informer.Version
	columns []column // as they were then
	rows    rowHashes
	marks   map[int64]bool // rows of the log without a key, after the version, that the list has taken into account
}

// memory has what the last lists and watches have reported, so that watches that begin there know what consumers have. It is safe for
// concurrent use.
type memory struct {
	mu sync.Mutex
	// mu guards the following.
	last []remembered
}

// mostRemembered is how many lists and watches are remembered.
const mostRemembered = 4

func (m *memory) put(r remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = append(m.last, r)
	m.last = m.last[max(0, len(m.last)-mostRemembered):]
}

// take returns what was reported up to a version, and forgets it. Its rows are nil if nobody knows.
func (m *memory) take(at informer.Version) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.last) - 1; i >= 0; i-- {
		if r := m.last[i]; r.at == at {
			m.last = append(m.last[:i:i], m.last[i+1:]...)
			return r
		}
	}
	return remembered{}
}

// value is a value of a column, as text.
type value struct {
	text []byte
	null bool
}

// Scan implements [sql.Scanner].
func (v *value) Scan(from any) error {
	v.null, v.text = from == nil, v.text[:0]
	switch from := from.(type) {
	case nil:
	case []byte:
		v.text = append(v.text, from...)
	case string:
		v.text = append(v.text, from...)
	case int64:
		v.text = strconv.AppendInt(v.text, from, 10)
	case float64:
		v.text = strconv.AppendFloat(v.text, from, 'g', -1, 64)
	case time.Time:
		v.text = from.AppendFormat(v.text, time.RFC3339Nano)
	default:
		v.text = fmt.Append(v.text, from)
	}
	return nil
}

// appendValue appends a value to others, so that different values differ.
func appendValue(to []byte, v value) []byte {
	if v.null {
		return append(to, 0)
	}
	return append(binary.AppendUvarint(to, uint64(len(v.text))+1), v.text...)
}

// row is a row that is read as values.
type row struct {
	values []value
	dest   []any
	key    []int // the columns of the key
	text   []byte
	seed   maphash.Seed
}

func (t *Table[T]) newRow() *row {
	r := &row{values: make([]value, len(t.cfg.Columns)), key: t.key, seed: t.seed}
	for i := range r.values {
		r.dest = append(r.dest, &r.values[i])
	}
	return r
}

// keyText returns the values of the key, as text that is valid until the next call.
func (r *row) keyText() []byte {
	r.text = r.text[:0]
	for _, i := range r.key {
		r.text = appendValue(r.text, r.values[i])
	}
	return r.text
}

// keyHash returns the hash of the key.
func (r *row) keyHash() uint64 { return maphash.Bytes(r.seed, r.keyText()) }

// hash returns the hash of the row.
func (r *row) hash() uint64 {
	r.text = r.text[:0]
	for _, v := range r.values {
		r.text = appendValue(r.text, v)
	}
	return maphash.Bytes(r.seed, r.text)
}

// verification is a comparison of the table with what a watch has reported. A goroutine reads the table meanwhile.
type verification struct {
	touched map[uint64]bool // the keys that the watch has reported since the comparison began, which are left out
	stop    context.CancelFunc
	done    chan struct{}
	// The goroutine sets the following before it closes done.
	rows rowHashes
	upTo int64 // the last change that the rows show
	err  error
}

// end stops the goroutine, and waits for it.
func (v *verification) end() {
	v.stop()
	<-v.done
}

// newVerification begins a comparison.
func (t *Table[T]) newVerification(ctx context.Context) *verification {
	ctx, stop := context.WithCancel(ctx)
	v := &verification{touched: map[uint64]bool{}, stop: stop, done: make(chan struct{})}
	go func() { // reads the table, while the watch goes on; ends with it
		defer close(v.done)
		v.err = wait.Call(ctx, func(ctx context.Context) (err error) {
			s, err := open(ctx, t.db, t.patience)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			return s.snapshot(ctx, func() error {
				var first, last sql.NullInt64
				if err := s.QueryRowContext(ctx, t.queries.ends).Scan(&first, &last); err != nil {
					return err
				}
				v.rows, v.upTo = rowHashes{}, last.Int64
				rows, err := s.QueryContext(ctx, t.queries.list)
				if err != nil {
					return err
				}
				r := t.newRow()
				for rows.Next() {
					if err := rows.Scan(r.dest...); err != nil {
						return errors.Join(err, rows.Close())
					}
					v.rows[r.keyHash()] = r.hash()
				}
				return errors.Join(rows.Err(), rows.Close())
			})
		})
	}()
	return v
}

// differences compares what was reported with the rows of the table.
func (v *verification) differences(reported rowHashes) (added, changed, gone int) {
	for key, hash := range v.rows {
		switch before, ok := reported[key]; {
		case v.touched[key]:
		case !ok:
			added++
		case before != hash:
			changed++
		}
	}
	for key := range reported {
		if _, ok := v.rows[key]; !ok && !v.touched[key] {
			gone++
		}
	}
	return added, changed, gone
}

// verify begins a comparison, or ends one that has read all rows and to which the watch has come.
func (r *reading[T]) verify(ctx context.Context) error {
	t := r.table
	if r.comparing == nil {
		switch {
		case time.Now().Before(r.verifyAt):
		case r.rows == nil:
			return expired("nobody knows what was reported before the watch began, so a list compares")
		default:
			r.comparing = t.newVerification(ctx)
		}
		return nil
	}
	select {
	case <-r.comparing.done:
	default:
		return nil
	}
	v := r.comparing
	if v.err == nil && v.upTo > numberOf(r.at) {
		return nil
	}
	r.comparing = nil
	v.stop()
	r.verifyAt = time.Now().Add(t.cfg.Verify)
	if v.err != nil {
		return v.err
	}
	added, changed, gone := v.differences(r.rows)
	if added+changed+gone == 0 {
		return nil
	}
	t.cfg.Logger.WarnContext(ctx, "a table has changed without its triggers, so its watches list again",
		"table", t.cfg.Table, "added", added, "changed", changed, "gone", gone)
	r.verifyAt = time.Now().Add(min(t.cfg.Verify, markPatience)) // the mark ends the watch before
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	return r.mark(ctx, "the table has changed without its triggers")
}

// markPatience is how soon a watch compares again that was not ended by its mark, because a transaction holds it up.
const markPatience = time.Minute
