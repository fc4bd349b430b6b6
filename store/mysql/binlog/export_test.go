package binlog

import "time"

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
