package binlog

import (
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// SetPatience sets how long a watch waits for a reply.
func (t *Table[T]) SetPatience(d time.Duration) { t.patience = d }

// Break makes t make a mistake.
func (t *Table[T]) Break(mistake string) {
	switch mistake {
	case "early":
		t.broken.early = true
	case "statements":
		t.broken.statements = true
	case "old keys":
		t.broken.oldKeys = true
	case "any mark":
		t.broken.anyMark = true
	default:
		panic(mistake)
	}
}

// SetReplicaID sets the server_id of the next connections to the binary log.
func (t *Table[T]) SetReplicaID(id func() uint32) { t.newReplicaID = id }

// SetCheckPeriod sets how often a watch checks the server.
func (t *Table[T]) SetCheckPeriod(d time.Duration) { t.period = d }

// Judge says what a statement in the log, with a default database, means for a table: nothing, a statement instead of rows, or a list.
func Judge(database, table, in, text string) string {
	g := &groups{schema: usertable.Schema{Database: database, Table: table}, alone: true, pos: position{1, 256}, mark: 1}
	switch _, err := g.query(in, text); {
	case errors.Is(err, errStatement):
		return "statement"
	case err != nil:
		return "list"
	}
	return ""
}

// Version returns the version of a place.
func Version(file, offset, mark uint64) informer.Version {
	return versionOf(position{file, offset}, mark)
}

// Place returns the place of a version.
func Place(v informer.Version) (file, offset, mark uint64) {
	p := positionOf(v)
	return p.file, p.offset, markOf(v)
}

// ParsePosition returns the error of a position.
func ParsePosition(file string, offset uint64) error {
	_, _, err := parsePosition(file, offset)
	return err
}
