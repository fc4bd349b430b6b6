package sqllease

import "reflect"

// Error numbers of MySQL and MariaDB.
const (
	mysqlDuplicate = 1062 // a unique key has this value
	mysqlLockWait  = 1205 // innodb_lock_wait_timeout: the statement is undone
	mysqlDeadlock  = 1213 // the transaction is undone
)

// mysqlDenied are the numbers of errors that show that the role has no privilege. The catalog hides the table from such a role.
var mysqlDenied = []uint16{
	1044, // to use the database
	1045, // to connect: a wrong password
	1130, // to connect from this host
	1142, // for the table
	1143, // for a column
	1227, // for an operation
	1698, // to connect without a password
	1820, // before it changes its password
	1862, // its password has expired
	3118, // the account is locked, in MySQL
	4151, // the account is locked, in MariaDB
}

// mysqlUnusable are the numbers of other errors that no outage causes.
var mysqlUnusable = []uint16{
	1046, // no database was selected
	1049, // no such database
	1054, // no such column
	1064, // syntax
	1146, // no such table
	1176, // no such key
}

// mysqlNumber returns the first error number of a server in the tree of err, or 0. The driver github.com/go-sql-driver/mysql has it in
// a field, Number uint16, and in no method.
func mysqlNumber(err error) uint16 {
	if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
		if f, ok := v.Type().FieldByName("Number"); ok && len(f.Index) == 1 && f.Type.Kind() == reflect.Uint16 {
			return uint16(v.FieldByIndex(f.Index).Uint())
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return mysqlNumber(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if n := mysqlNumber(err); n != 0 {
				return n
			}
		}
	}
	return 0
}
