package binlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	binmysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// dump is a connection over which the server sends its binary log, from a position on. One goroutine reads it.
type dump struct {
	conn     *client.Conn
	parser   *replication.BinlogParser
	base     string // of the names of the files
	from     position
	mark     uint64 // of the file from
	patience time.Duration
	stop     func() bool
}

// newReplicaID returns the server_id of a connection, at random. If two connections have the same one, the server ends the older connection, which
// begins again with another. Replicas hardly ever have such large numbers.
func newReplicaID() uint32 { return 1<<31 | rand.Uint32() }

// fatal is the number of the error of a server that cannot send the binary log from a position.
const fatal = 1236

// connect connects to the server of the DSN.
func (t *Table[T]) connect(ctx context.Context) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	dialer := t.server.DialFunc
	if dialer == nil {
		dialer = (&net.Dialer{Timeout: t.server.Timeout}).DialContext
	}
	c, err := client.ConnectWithDialer(ctx, t.server.Net, t.server.Addr, t.server.User, t.server.Passwd, "", dialer, func(c *client.Conn) error {
		c.SetTLSConfig(t.server.TLS)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the binary log: %w", err)
	}
	return c, nil
}

// dump begins to read the binary log at a position. Only rows of the table are decoded. The connection ends with ctx.
func (t *Table[T]) dump(ctx context.Context, s usertable.Schema, base string, from position) (_ *dump, err error) {
	c, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	d := &dump{conn: c, parser: replication.NewBinlogParser(), base: base, from: from, patience: t.patience}
	d.stop = context.AfterFunc(ctx, func() { _ = c.Conn.Conn.Close() }) // ends a read
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	d.parser.SetFlavor(binmysql.MariaDBFlavor)
	d.parser.SetTimestampStringLocation(time.UTC)
	d.parser.SetVerifyChecksum(true)
	d.parser.SetRowsEventDecodeFunc(func(e *replication.RowsEvent, data []byte) error {
		at, err := e.DecodeHeader(data)
		if err != nil || !isOf(s, e.Table) {
			return err
		}
		return e.DecodeData(at, data)
	})
	_ = c.SetDeadline(time.Now().Add(t.patience))
	if err := t.checkServer(c); err != nil {
		return nil, err
	}
	for _, text := range []string{
		"SET @master_binlog_checksum = @@GLOBAL.binlog_checksum", // the server sends the checksums that are in the file
		"SET @mariadb_slave_capability = 4",                      // it sends all kinds of events
		fmt.Sprintf("SET @master_heartbeat_period = %d", (t.patience / 4).Nanoseconds()),
	} {
		if _, err := c.Execute(text); err != nil {
			return nil, err
		}
	}
	name := fileName(base, from.file)
	c.ResetSequence()
	command := append(make([]byte, 4), binmysql.COM_BINLOG_DUMP)
	command = binary.LittleEndian.AppendUint32(command, uint32(from.offset))
	command = binary.LittleEndian.AppendUint16(command, replication.BINLOG_DUMP_NEVER_STOP)
	command = binary.LittleEndian.AppendUint32(command, t.newReplicaID())
	if err := c.WritePacket(append(command, name...)); err != nil {
		return nil, err
	}
	for d.mark == 0 { // up to the description of the file
		e, err := d.next()
		if e := new(binmysql.MyError); errors.As(err, &e) && e.Code == fatal {
			return nil, t.explainFatal(ctx, from, e)
		}
		if err != nil {
			return nil, err
		}
		switch e.Event.(type) {
		case *replication.RotateEvent: // the name of the file
		case *replication.FormatDescriptionEvent:
			d.mark = fileMark(e.Header.ServerID, e.Header.Timestamp)
		default:
			return nil, fmt.Errorf("the binary log begins with an event of type %s", e.Header.EventType)
		}
	}
	return d, nil
}

// checkServer returns an error if c is not a connection to the server of the pool, or if its binary log lacks the database.
func (t *Table[T]) checkServer(c *client.Conn) error {
	is, err := c.Execute("SELECT @@hostname, @@port")
	if err != nil {
		return err
	}
	host, _ := is.GetString(0, 0)
	port, _ := is.GetInt(0, 1)
	if id := (serverID{host, int(port)}); id != t.id {
		return fmt.Errorf("TableConfig.DSN is of the server %s:%d, and the pool of %s:%d", id.host, id.port, t.id.host, t.id.port)
	}
	status, err := c.Execute("SHOW MASTER STATUS")
	if err != nil {
		return err
	}
	if status.RowNumber() == 0 {
		return errors.New("log_bin is off: the server must be started with it")
	}
	has := func(column int) (list string, has bool) {
		list, _ = status.GetString(0, column)
		return list, slices.Contains(strings.Split(list, ","), t.database)
	}
	if list, has := has(2); list != "" && !has {
		return fmt.Errorf("binlog_do_db is %s, must have the database %s, or be empty", list, t.database)
	}
	if list, has := has(3); has {
		return fmt.Errorf("binlog_ignore_db is %s, must not have the database %s", list, t.database)
	}
	return nil
}

// explainFatal returns why the server does not send the binary log from a position.
func (t *Table[T]) explainFatal(ctx context.Context, from position, cause error) error {
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Conn.Conn.Close() }()
	_ = c.SetDeadline(time.Now().Add(t.patience))
	files, err := c.Execute("SHOW BINARY LOGS")
	if err != nil {
		return err
	}
	for i := range files.RowNumber() {
		name, _ := files.GetString(i, 0)
		size, _ := files.GetUint(i, 1)
		p, _, err := parsePosition(name, 0)
		switch {
		case err != nil:
			return err
		case p.file > from.file: // the first one
			return fmt.Errorf("%w: the server has removed %s", informer.ErrExpired, fileName("the file ", from.file))
		case p.file == from.file:
			return fmt.Errorf("%w: its binary log has %d bytes in %s, and no event at %d: %w", informer.ErrNewHistory, size, name, from.offset, cause)
		}
	}
	return fmt.Errorf("%w: its binary log has no file %d", informer.ErrNewHistory, from.file)
}

// next returns the next event. It returns an error if the server is silent, or when the context of the dump has ended.
func (d *dump) next() (*replication.BinlogEvent, error) {
	if err := d.conn.SetReadDeadline(time.Now().Add(d.patience)); err != nil {
		return nil, err
	}
	packet, err := d.conn.ReadPacket()
	if err != nil {
		return nil, err
	}
	switch {
	case len(packet) > 1 && packet[0] == binmysql.OK_HEADER:
		return d.parser.Parse(packet[1:])
	case len(packet) > 0 && packet[0] == binmysql.ERR_HEADER:
		return nil, d.conn.HandleErrorPacket(packet)
	default:
		return nil, errors.New("the server has ended the binary log")
	}
}

// close ends the connection. The server notices that when it sends the next event, or a heartbeat.
func (d *dump) close() {
	d.stop()
	_ = d.conn.Conn.Conn.Close() // nothing was written
}
