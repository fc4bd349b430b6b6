package rowscan_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// fixed is a driver whose only query returns these rows.
type fixed [][]driver.Value

func (f fixed) Connect(context.Context) (driver.Conn, error) { return f, nil }
func (f fixed) Driver() driver.Driver                        { return nil }
func (f fixed) Prepare(string) (driver.Stmt, error)          { return f, nil }
func (f fixed) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (f fixed) Close() error                                 { return nil }
func (f fixed) NumInput() int                                { return 0 }
func (f fixed) Exec([]driver.Value) (driver.Result, error)   { return nil, errors.ErrUnsupported }
func (f fixed) Query([]driver.Value) (driver.Rows, error)    { return &fixedRows{f}, nil }

type fixedRows struct{ left fixed }

func (r *fixedRows) Columns() []string { return make([]string, len(r.left[0])) }
func (r *fixedRows) Close() error      { return nil }
func (r *fixedRows) Next(dest []driver.Value) error {
	if len(r.left) == 1 {
		return io.EOF
	}
	copy(dest, r.left[1])
	r.left = r.left[1:]
	return nil
}

// newPool returns a pool whose query returns rows of n columns.
func newPool(n int, rows ...[]driver.Value) *sql.DB {
	return sql.OpenDB(append(fixed{make([]driver.Value, n)}, rows...))
}

func TestPartShowsSomeColumnsSeveralTimes(t *testing.T) {
	db := newPool(4, []driver.Value{int64(7), "key", "a", "b"})
	defer db.Close()
	rows, err := db.Query("")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatal("no row")
	}
	whole := &rowscan.Part{Rows: rows, Skip: 2, N: 2}
	key := &rowscan.Part{Rows: rows, Skip: 2, N: 2, Key: map[int]int{1: 1}} // the second column has the value of one before the part
	for range 2 {
		var a, b string
		if err := whole.Scan(&a, &b); err != nil || a != "a" || b != "b" {
			t.Errorf("the part has %q, %q: %v, want a, b", a, b, err)
		}
		if err := whole.Scan(nil, &a); err != nil || a != "b" {
			t.Errorf("the second column is %q: %v, want b", a, err)
		}
		a, b = "as it was", ""
		if err := key.Scan(&a, &b); err != nil || a != "as it was" || b != "key" {
			t.Errorf("the key has %q, %q: %v, want a first column as it was, and key", a, b, err)
		}
		if err := whole.Scan(&a); err == nil || err.Error() != "the row has 2 columns, 1 are scanned" {
			t.Errorf("a scan of one column: %v", err)
		}
	}
}

func TestAllReturnsRowsOrTheErrorOfAScan(t *testing.T) {
	db := newPool(1, []driver.Value{"a"}, []driver.Value{"b"})
	defer db.Close()
	got, err := rowscan.All(t.Context(), db, func(rows *sql.Rows, s *string) error { return rows.Scan(s) }, "")
	if want := []string{"a", "b"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("All returns %v, %v, want %v", got, err, want)
	}
	refused := errors.New("refused")
	if _, err := rowscan.All(t.Context(), db, func(*sql.Rows, *string) error { return refused }, ""); !errors.Is(err, refused) {
		t.Errorf("All returns the error %v, want that of the scan", err)
	}
}

func TestPanicOfAScanIsItsError(t *testing.T) {
	if _, err := rowscan.Object(func(int) (string, error) { panic("no such column") }, 1); err == nil {
		t.Error("no error")
	}
}

func TestKeyCountsUnlessTheObjectIsZero(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		obj       string
		err, want error
	}{
		{"key", refused, nil}, {"key", nil, nil}, {"", refused, refused}, {"", nil, nil},
	} {
		obj, err := rowscan.Key(func(int) (string, error) { return c.obj, c.err }, 1)
		if obj != c.obj || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("a scan that returns %q, %v: %q, %v", c.obj, c.err, obj, err)
		}
	}
}

func TestObjectIsInOnePartOfPage(t *testing.T) {
	refused := errors.New("refused")
	scan := func(row string) (string, error) {
		if row == "bad" || row == "nothing" {
			return "", refused
		}
		return row, nil
	}
	var page informer.List[string]
	rowscan.AddTo(&page, scan, "a", "key of a")
	rowscan.AddTo(&page, scan, "bad", "key of b")
	rowscan.AddTo(&page, scan, "bad", "nothing")
	if want := []string{"a"}; !reflect.DeepEqual(page.Items, want) {
		t.Errorf("the items are %v, want %v", page.Items, want)
	}
	if want := []informer.Unread[string]{{Object: "key of b", Err: refused}}; !reflect.DeepEqual(page.Unread, want) {
		t.Errorf("unread are %v, want %v", page.Unread, want)
	}
	if len(page.Missing) != 1 || page.Missing[0].Error() != "scan cannot read a row: refused; nor the row with only its key: refused" {
		t.Errorf("missing are %v", page.Missing)
	}
}
