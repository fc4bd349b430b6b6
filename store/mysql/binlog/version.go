package binlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// position is a place between two events of the binary log: the number of a file, and an offset in it.
type position struct{ file, offset uint64 }

// reaches reports whether p is at or after q.
func (p position) reaches(q position) bool {
	return p.file > q.file || p.file == q.file && p.offset >= q.offset
}

// A version is a position, and the mark of its file. So a version of another server, or of a server whose binary log was reset, is not one
// of the history that the server has now. A version without a mark may be compared with others, but no watch begins there.
const (
	fileBits   = 20
	offsetBits = 32
	markBits   = 12
)

func versionOf(p position, mark uint64) informer.Version {
	return informer.Version(p.file<<(offsetBits+markBits) | p.offset<<markBits | mark)
}

func positionOf(v informer.Version) position {
	return position{file: uint64(v) >> (offsetBits + markBits), offset: uint64(v) >> markBits & (1<<offsetBits - 1)}
}

func markOf(v informer.Version) uint64 { return uint64(v) & (1<<markBits - 1) }

// fileMark returns the mark of a file that a server has begun at a time. It is not 0.
func fileMark(serverID, begun uint32) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, serverID), begun)) // never fails
	return h.Sum64()%(1<<markBits-1) + 1
}

// parsePosition returns a position by the words of the server, and the name of the file without its number.
func parsePosition(file string, offset uint64) (p position, base string, err error) {
	dot := strings.LastIndexByte(file, '.')
	if p.file, err = strconv.ParseUint(file[dot+1:], 10, 64); err != nil {
		return p, "", fmt.Errorf("the file %q of the binary log has no number", file)
	}
	p.offset = offset
	if p.file >= 1<<fileBits || p.offset >= 1<<offsetBits {
		return p, "", fmt.Errorf("the binary log is at %s:%d, must not have more than %d files, nor files of 4 GB", file, offset, 1<<fileBits-1)
	}
	return p, file[:dot+1], nil
}

// fileName returns the name of a file.
func fileName(base string, file uint64) string { return fmt.Sprintf("%s%06d", base, file) }

// visible returns a position up to which all changes of the binary log are visible to what is read next. Those of XA may not be: see prepared.
// The server has a position of each snapshot, too, but gives one session that of another, if both ask at the same time.
func visible(ctx context.Context, from rowscan.Queryer) (p position, base string, err error) {
	rows, err := from.QueryContext(ctx, "SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return p, "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var file string
	var offset uint64
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return p, "", err
		}
		if strings.EqualFold(name, "binlog_snapshot_file") {
			file = text
		} else if strings.EqualFold(name, "binlog_snapshot_position") {
			if offset, err = strconv.ParseUint(text, 10, 64); err != nil {
				return p, "", err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return p, "", err
	}
	if file == "" {
		return p, "", errors.New("the server does not say its position in the binary log: log_bin must be on, and the server MariaDB")
	}
	return parsePosition(file, offset)
}

// clockKind is the kind of the clock of a server.
const clockKind = "mariadb binary log"

// serverID identifies a server.
type serverID struct {
	host string
	port int
}

// Clock identifies the counter of the versions of t, which is the same for all tables of a server. A controller compares clocks to know which of
// its caches show a write.
func (t *Table[T]) Clock() reconcile.Clock { return reconcile.Clock{Kind: clockKind, DB: t.id} }

// LatestVersion implements [informer.Versioner]. It returns a version that a watch reaches when it has reported every change that was committed
// before the call.
func (t *Table[T]) LatestVersion(ctx context.Context) (informer.Version, error) {
	limited, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	p, _, err := visible(limited, t.db)
	if err != nil {
		return 0, failed(ctx, fmt.Sprintf("read the latest version of table %q", t.cfg.Table), err)
	}
	v := versionOf(p, 0)
	t.expected.Expect(v)
	return v, nil
}

// CommittedVersion returns a version that a cache of t has reached only if it shows every change that was committed before the call. Call it
// after the Commit of a transaction. The position of a transaction in the binary log is not known before its commit.
//
// Call it in each reconcile that writes a table that the controller watches. Under the context of the reconcile, CommittedVersion tells the
// controller the version. The controller then does not reconcile the key again until its caches have seen the transaction, or until 10 s have
// passed since the reconcile has ended: see controller.Config.StaleReads. If it returns an error, the transaction is committed all the same, and
// a next reconcile may see rows of before it.
func (t *Table[T]) CommittedVersion(ctx context.Context) (informer.Version, error) {
	v, err := t.LatestVersion(ctx)
	if err == nil {
		reconcile.ReportWrite(ctx, clockKind, t.id, uint64(v))
	}
	return v, err
}
