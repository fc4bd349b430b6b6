package binlog

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// bits are those of the types of numbers.
var bits = map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

// checkKey returns an error if a column of the key cannot be read from the log, or if the rows of the log cannot be read.
func checkKey(s usertable.Schema) error {
	for _, c := range s.Key {
		switch c.Kind {
		case "tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit", "enum", "set", "decimal", "double", "date", "datetime", "timestamp", "time",
			"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		default:
			return fmt.Errorf("its column %q, which is in the key, has the type %s, which package binlog does not read", c.Name, c.Kind)
		}
	}
	for _, c := range s.All {
		switch {
		case strings.Contains(c.Definition, "COMPRESSED"):
			return fmt.Errorf("its column %q is compressed, which package binlog does not read", c.Name)
		case strings.Contains(c.Definition, "mariadb-5.3"):
			return fmt.Errorf("its column %q has the format of MariaDB 5.3: ALTER TABLE ... FORCE gives it the present one", c.Name)
		}
	}
	return nil
}

// appendLiteral appends a value of a column of the key, as SQL that the server converts to the type of the column. It returns false if the value
// has another type.
func appendLiteral(to *strings.Builder, c usertable.Column, v any) bool {
	kind := c.Kind
	switch v := v.(type) {
	case int8, int16, int32, int64, int:
		n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
		if err != nil {
			return false
		}
		unsigned := kind == "bit" || kind == "enum" || kind == "set" || strings.Contains(c.Definition, "unsigned") || strings.Contains(c.Definition, "zerofill")
		width, isInt := bits[kind]
		switch {
		case !isInt && kind != "bit" && kind != "enum" && kind != "set" && kind != "year":
			return false
		case unsigned && isInt && width < 64:
			n &= 1<<width - 1
		}
		if unsigned {
			to.WriteString(strconv.FormatUint(uint64(n), 10))
		} else {
			to.WriteString(strconv.FormatInt(n, 10))
		}
		return true
	case float64:
		to.WriteString(strconv.FormatFloat(v, 'e', -1, 64))
		return kind == "double"
	case string:
		switch kind {
		case "decimal":
			to.WriteString(v)
			return strings.Trim(v, "-.0123456789") == ""
		case "date", "datetime", "timestamp", "time":
			to.WriteString("'" + v + "'")
			return strings.Trim(v, "-:. 0123456789") == ""
		}
		return appendBytes(to, c, []byte(v))
	case []byte:
		return appendBytes(to, c, v)
	}
	return false
}

func appendBytes(to *strings.Builder, c usertable.Column, v []byte) bool {
	if c.IsText() {
		to.WriteString("_" + c.Charset + " ")
	}
	to.WriteString("x'" + hex.EncodeToString(v) + "'")
	return c.IsText() || strings.HasSuffix(c.Kind, "binary") || strings.HasSuffix(c.Kind, "blob")
}

// createKeys creates the temporary table of keys of a session. It is not in the binary log.
func createKeys(ctx context.Context, s usertable.Session, schema usertable.Schema) error {
	var text strings.Builder
	text.WriteString("CREATE OR REPLACE TEMPORARY TABLE " + keysName(schema) + " (n INT NOT NULL PRIMARY KEY")
	for i, c := range schema.Key {
		text.WriteString(fmt.Sprintf(", k%d %s", i, c.SQL()))
	}
	return s.Write(ctx, text.String()+") ENGINE = InnoDB")
}

func keysName(schema usertable.Schema) string {
	return usertable.Quote(schema.Database) + "." + usertable.Quote(keysTable)
}

// mostSQL is how many bytes of keys a statement has, unless one key has more.
const mostSQL = 1 << 20

// putKeys adds keys to those of a session, until the end of its transaction. The server converts them to the types of the columns. The values of
// moments are in UTC.
func putKeys(ctx context.Context, s usertable.Session, schema usertable.Schema, keys []string) error {
	var text strings.Builder
	for n, key := range keys {
		if text.Len() == 0 {
			text.WriteString("SET STATEMENT sql_mode = '', time_zone = '+00:00' FOR INSERT INTO " + keysName(schema) + " VALUES ")
		} else {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "(%d, %s)", n, key)
		if text.Len() >= mostSQL || n == len(keys)-1 {
			if _, err := s.ExecContext(ctx, text.String()); err != nil {
				return err
			}
			text.Reset()
		}
	}
	return nil
}

// keysSQL returns the query of the keys of a session, each with its row.
func keysSQL(schema usertable.Schema) string {
	var keys, same []string
	inTable := usertable.Quoted("t", schema.Key)
	for i := range schema.Key {
		keys = append(keys, fmt.Sprintf("l.k%d", i))
		same = append(same, inTable[i]+" = "+keys[i])
	}
	return "SELECT l.n, " + strings.Join(keys, ", ") + ", " + inTable[0] + " IS NOT NULL, " + strings.Join(usertable.Quoted("t", schema.Columns), ", ") +
		" FROM " + keysName(schema) + " l LEFT JOIN " + usertable.Quote(schema.Database) + "." + usertable.Quote(schema.Table) + " t ON " +
		strings.Join(same, " AND ") + " ORDER BY l.n"
}
