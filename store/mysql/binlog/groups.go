package binlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// batch is what a transaction has written, or a part of it.
type batch struct {
	keys    []string         // that were written, as SQL
	at      informer.Version // after which a watch may begin. It is that before the transaction until the last batch of it
	need    position         // is visible when the batch is
	xid     string           // of a prepared transaction that must have ended
	compare bool             // the transaction may have written rows of the table that are not in the log
}

// groups makes batches of the events of the binary log. A group of events is a transaction, or a statement such as ALTER TABLE. A watch may only
// begin between two groups.
type groups struct {
	schema usertable.Schema
	at     []int // the columns of the key, among all columns of the table
	links  links
	shown  informer.Version // the list that a watch began with shows all changes up to it

	pos    position
	mark   uint64
	inside bool // a group
	alone  bool // the group ends with the statement in it
	xa     bool // the group is one that is only prepared
	start  position
	xid    string
	keys   []string

	// Of the statement that the group is in: it has opened the table, and it has updated or deleted rows.
	opened, updatedTable, updatedOthers bool
	compare                             bool

	prepared map[string]*batch // transactions, by their XID
	held     int               // their keys

	broken broken
}

// links says what foreign keys do with rows of the table.
type links struct {
	any  bool // another table's rows, or rows of the table, may update or delete some
	self bool // rows of the table may
}

// mostKeys is how many keys a batch has at most, unless one event has more.
const mostKeys = 2000

// mostHeld is how many keys of prepared transactions are remembered.
const mostHeld = 100_000

// lost is an error after which an informer lists.
func lost(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{informer.ErrExpired}, args...)...)
}

// isOf reports whether an event is of a table.
func isOf(s usertable.Schema, e *replication.TableMapEvent) bool {
	return s.Is(string(e.Schema), s.Database) && s.Is(string(e.Table), s.Table)
}

// add adds an event. It returns a batch if one is complete.
func (g *groups) add(e *replication.BinlogEvent) (b *batch, err error) {
	h, before, inside := e.Header, g.pos, g.inside
	defer func() {
		if inside && !g.inside && h.LogPos == 0 && err == nil {
			b, err = nil, fmt.Errorf("the last event of a transaction, of type %s, has no position in the binary log", h.EventType)
		}
	}()
	if h.LogPos > 0 && h.Flags&replication.LOG_EVENT_ARTIFICIAL_F == 0 && h.EventType != replication.HEARTBEAT_EVENT {
		if uint64(h.LogPos) < g.pos.offset {
			return nil, lost("a file of the binary log has more than 4 GB")
		}
		g.pos.offset = uint64(h.LogPos)
	}
	switch event := e.Event.(type) {
	case *replication.RotateEvent:
		p, _, err := parsePosition(string(event.NextLogName), event.Position)
		if err != nil {
			return nil, err
		}
		if p.file != g.pos.file {
			g.pos, g.mark = p, 0 // until the description of the file
		}
	case *replication.FormatDescriptionEvent:
		if g.mark == 0 && g.inside {
			return nil, lost("the server has ended within a transaction")
		}
		g.mark = fileMark(h.ServerID, h.Timestamp)
	case *replication.MariadbGTIDEvent:
		const prepared = 64 // a flag: the transaction is prepared, and another group commits it
		if g.inside {
			return nil, lost("a transaction has no end in the binary log")
		}
		g.inside, g.alone, g.xa = true, event.IsStandalone(), event.Flags&prepared != 0
		g.start = before
		g.keys, g.xid, g.compare = nil, "", false
		g.endStatement()
	case *replication.TableMapEvent:
		if isOf(g.schema, event) {
			g.opened = true
			if int(event.ColumnCount) < len(g.schema.All) {
				return nil, lost("the table has %d columns, and had %d", len(g.schema.All), event.ColumnCount)
			}
		}
	case *replication.RowsEvent:
		return g.rows(event)
	case *replication.XIDEvent:
		return g.end(), nil
	case *replication.QueryEvent:
		return g.query(string(event.Schema), string(event.Query))
	case *replication.ExecuteLoadQueryEvent, *replication.BeginLoadQueryEvent:
		return nil, g.statement("LOAD DATA")
	case *replication.GenericEvent:
		switch h.EventType {
		case replication.XA_PREPARE_LOG_EVENT:
			g.prepare()
		case replication.STOP_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT, replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2,
			replication.MARIADB_START_ENCRYPTION_EVENT:
		case replication.INCIDENT_EVENT:
			return nil, lost("the server has lost events of the binary log")
		default:
			if h.Flags&replication.LOG_EVENT_IGNORABLE_F == 0 {
				return nil, fmt.Errorf("the binary log has an event of the unknown type %d", h.EventType)
			}
		}
	}
	return nil, nil
}

// version returns that of the position.
func (g *groups) version() informer.Version { return versionOf(g.pos, g.mark) }

// endStatement forgets what the statement has done.
func (g *groups) endStatement() { g.opened, g.updatedTable, g.updatedOthers = false, false, false }

// rows adds the keys of an event of rows.
func (g *groups) rows(e *replication.RowsEvent) (*batch, error) {
	updated := e.Type() != replication.EnumRowsEventTypeInsert
	if isOf(g.schema, e.Table) {
		g.updatedTable = g.updatedTable || updated
		if err := g.addKeys(e); err != nil {
			return nil, err
		}
	} else {
		g.updatedOthers = g.updatedOthers || updated
	}
	if e.Flags&replication.RowsEventStmtEndFlag != 0 {
		// The server opens a table whose rows a foreign key may update or delete, and writes that into the log, but not the rows.
		if g.opened && (g.links.any && g.updatedOthers || g.links.self && g.updatedTable) {
			g.compare = true
		}
		g.endStatement()
	}
	if len(g.keys) < mostKeys || g.xa {
		return nil, nil
	}
	b := &batch{keys: g.keys, at: versionOf(g.start, g.mark), need: position{g.start.file, g.start.offset + 1}}
	g.keys = nil
	return b, nil
}

// addKeys adds the keys of the rows of an event.
func (g *groups) addKeys(e *replication.RowsEvent) error {
	pairs := e.Type() == replication.EnumRowsEventTypeUpdate
	for i, row := range e.Rows {
		var before []any // of the same row
		if pairs && i%2 == 1 {
			before = e.Rows[i-1]
		}
		key, err := g.key(row, e.SkippedColumns[i], before)
		if err != nil {
			return err
		}
		if before == nil && pairs && g.broken.oldKeys {
			continue
		}
		if key != "" && (len(g.keys) == 0 || g.keys[len(g.keys)-1] != key) {
			g.keys = append(g.keys, key)
		}
	}
	return nil
}

// key returns the key of a row, as SQL, or nothing if a part of it is null. If the log has the row as it was before, it may lack columns that
// have not changed.
func (g *groups) key(row []any, skipped []int, before []any) (string, error) {
	var text strings.Builder
	for i, column := range g.at {
		v := row[column]
		if slices.Contains(skipped, column) {
			if before == nil {
				return "", lost("the rows of the binary log lack the column %q: binlog_row_image must be FULL", g.schema.Key[i].Name)
			}
			v = before[column]
		}
		if v == nil {
			return "", nil
		}
		if i > 0 {
			text.WriteString(", ")
		}
		if !appendLiteral(&text, g.schema.Key[i], v) {
			return "", lost("the column %q has a value of another type in the binary log", g.schema.Key[i].Name)
		}
	}
	return text.String(), nil
}

// end ends the group.
func (g *groups) end() *batch {
	g.inside = false
	if len(g.keys) == 0 && !g.compare {
		return nil
	}
	b := &batch{keys: g.keys, at: g.version(), need: g.pos, compare: g.compare}
	g.keys = nil
	return b
}

// prepare ends a group that is prepared.
func (g *groups) prepare() {
	g.inside = false
	if g.held += len(g.keys); g.held > mostHeld { // forget all: the list that follows a commit has them
		g.prepared, g.held, g.shown = nil, 0, 0
		return
	}
	if g.prepared == nil {
		g.prepared = map[string]*batch{}
	}
	g.prepared[g.xid] = &batch{keys: g.keys, compare: g.compare}
}

// resolve ends a prepared transaction.
func (g *groups) resolve(xid string, commit bool) (*batch, error) {
	b, known := g.prepared[xid]
	if known {
		g.held -= len(b.keys)
		delete(g.prepared, xid)
	}
	switch {
	case !commit:
		return nil, nil
	case known:
	case g.version() <= g.shown: // the list has waited for it
		return nil, nil
	default:
		return nil, lost("a transaction was committed that was prepared before the watch began")
	}
	if len(b.keys) == 0 && !b.compare {
		return nil, nil
	}
	b.at, b.need, b.xid = g.version(), g.pos, xid
	return b, nil
}

var errStatement = errors.New("the binary log has a statement instead of rows: binlog_format must be ROW, and no session must set another one")

// statement returns the error of a change that is in the log as a statement. It has the first word only, since others may be secrets.
func (g *groups) statement(word string) error {
	return lost("%w: %s, before %d:%d", errStatement, word, g.pos.file, g.pos.offset)
}

// query adds a statement.
func (g *groups) query(database, text string) (b *batch, err error) {
	words := strings.Fields(strings.ToUpper(withoutComments(text)))
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	ends := g.alone
	switch word(0) {
	case "BEGIN", "SAVEPOINT", "RELEASE", "": // a comment stands for an event that the server has left out
	case "COMMIT":
		ends = true
	case "ROLLBACK":
		ends = word(1) == "" // of a transaction that has changed a table without transactions
	case "XA":
		at := strings.Index(text, "X'")
		if at < 0 {
			return nil, fmt.Errorf("the binary log has the statement %.80q, which names no transaction", text)
		}
		switch xid := text[at:]; word(1) {
		case "END":
			g.xid = xid
		case "COMMIT", "ROLLBACK":
			if b, err = g.resolve(xid, word(1) == "COMMIT"); err != nil {
				return nil, err
			}
		}
	case "ANALYZE", "FLUSH", "GRANT", "REVOKE":
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "SELECT", "DO", "CALL", "WITH", "SET": // SET is that of SET STATEMENT
		if (word(0) != "SET" || word(1) == "STATEMENT") && !g.broken.statements {
			return nil, g.statement(word(0))
		}
	default:
		if g.concerns(database, text) {
			return nil, lost("the table may have changed by a statement: %s %s", word(0), word(1))
		}
	}
	if ends {
		if end := g.end(); b == nil {
			b = end
		}
	}
	return b, nil
}

// concerns reports whether a statement that changes no rows by itself, such as ALTER TABLE, may be about the table.
func (g *groups) concerns(database, text string) bool {
	if !utf8.ValidString(text) {
		return true // it is in another character set
	}
	if !strings.EqualFold(database, g.schema.Database) && !mentions(text, g.schema.Database) {
		return false
	}
	words := strings.Fields(strings.ToUpper(withoutComments(text)))
	whole := len(words) > 1 && (words[1] == "DATABASE" || words[1] == "SCHEMA")
	return mentions(text, g.schema.Table) || whole && mentions(text, g.schema.Database)
}

// mentions reports whether a statement has a name, as a word or in quotes.
func mentions(text, name string) bool {
	text, name = strings.ToLower(text), strings.ToLower(name)
	for _, quote := range []string{"`", `"`} {
		if strings.Contains(text, quote+strings.ReplaceAll(name, quote, quote+quote)+quote) {
			return true
		}
	}
	isPart := func(r rune) bool {
		return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) || r > unicode.MaxLatin1
	}
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return !isPart(r) }), name)
}

// withoutComments returns a statement without the comments that it begins with.
func withoutComments(text string) string {
	for {
		text = strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, "/*") && !strings.HasPrefix(text, "/*!") && !strings.HasPrefix(text, "/*M!"):
			_, after, ok := strings.Cut(text, "*/")
			if !ok {
				return ""
			}
			text = after
		case strings.HasPrefix(text, "#"), strings.HasPrefix(text, "-- "):
			_, after, ok := strings.Cut(text, "\n")
			if !ok {
				return ""
			}
			text = after
		default:
			return text
		}
	}
}
