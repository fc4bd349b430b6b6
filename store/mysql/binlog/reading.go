package binlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
	driver "github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
	"github.com/setpoint-go/setpoint/wait"
)

// stream reads the binary log, in a goroutine of its own.
type stream struct {
	batches chan *batch // that have changes; the goroutine closes it at its end
	stop    context.CancelFunc
	err     error // why it has ended; set before batches is closed
	events  atomic.Int64

	mu sync.Mutex
	// mu guards the following.
	at informer.Version // the last place at which a watch may begin; every batch before it was sent
}

// place returns where the stream is.
func (s *stream) place() informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// run reads the log until ctx ends, or something else does.
func (s *stream) run(ctx context.Context, d *dump, g *groups, wake func()) error {
	for {
		e, err := d.next()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("read the binary log: %w", err)
		}
		if e.Header.EventType != replication.HEARTBEAT_EVENT {
			s.events.Add(1)
		}
		b, err := g.add(e)
		if err != nil {
			return err
		}
		if b != nil {
			select {
			case s.batches <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if !g.inside && g.mark != 0 {
			s.mu.Lock()
			s.at = g.version()
			s.mu.Unlock()
		}
		if b != nil {
			wake()
		}
	}
}

// end stops the goroutine, and waits for it.
func (s *stream) end() {
	s.stop()
	for range s.batches { // until it is closed
	}
}

// reading is the state of a watch.
type reading[T any] struct {
	table            *Table[T]
	session          usertable.Session
	usertable.Report // what was reported up to At

	schema  usertable.Schema
	stream  *stream  // nil before it begins
	pending []*batch // that are not visible yet

	comparing  *usertable.Comparison // nil if there is none
	mayCompare time.Time             // the next time for a comparison that the log suggests

	checkAt, verifyAt time.Time // the next time
	behind            int64     // events that the stream had read at the last check, if the server was further; or 0
}

// begin begins to read the binary log.
func (r *reading[T]) begin(ctx context.Context) error {
	t := r.table
	if markOf(r.At) == 0 {
		return lost("the version %d is of no file", r.At)
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	setting, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	if _, err := r.session.ExecContext(setting, "SET SESSION TRANSACTION READ WRITE"); err != nil {
		return err
	}
	if err := createKeys(setting, r.session, r.schema); err != nil {
		return err
	}
	links, err := findLinks(setting, r.session, r.schema)
	if err != nil {
		return err
	}
	_, base, err := visible(setting, r.session)
	if err != nil {
		return err
	}
	from := positionOf(r.At)
	reading, stop := context.WithCancel(ctx)
	d, err := t.dump(reading, r.schema, base, from)
	if err == nil && d.mark != markOf(r.At) && !t.broken.anyMark {
		d.close()
		err = fmt.Errorf("%w: its file %s of the binary log is another one", informer.ErrNewHistory, fileName(base, from.file))
	}
	if err != nil {
		stop()
		return err
	}
	g := &groups{schema: r.schema, links: links, shown: r.Shown, pos: from, mark: d.mark, broken: t.broken}
	for _, name := range usertable.Names(r.schema.Key) {
		g.at = append(g.at, slices.Index(usertable.Names(r.schema.All), name))
	}
	s := &stream{batches: make(chan *batch, 16), stop: stop, at: r.At}
	r.stream = s
	go func() { // ends with stop, or an error
		defer close(s.batches)
		defer t.expected.Signal.Wake()
		defer d.close()
		s.err = wait.Call(reading, func(ctx context.Context) error { return s.run(ctx, d, g, t.expected.Signal.Wake) })
	}()
	return nil
}

// end ends the stream and a comparison, and remembers what was reported.
func (r *reading[T]) end() {
	if r.stream != nil {
		r.stream.end()
	}
	if r.comparing != nil {
		r.comparing.End()
	}
	if r.Rows != nil {
		r.table.memory.Put(r.Report)
	}
}

// check checks the settings and the schema.
func (r *reading[T]) check(ctx context.Context) error {
	r.checkAt = time.Now().Add(r.table.period)
	schema, err := r.table.check(ctx, r.session)
	switch {
	case err != nil:
		return err
	case r.Columns == nil:
		r.Columns = schema.All
	case !slices.Equal(r.Columns, schema.All): // then rows may look different without having been written
		return lost("the columns of the table have other definitions")
	}
	if r.schema.Table == "" {
		r.schema = schema
	}
	return nil
}

// checkStream returns an error if the server has another binary log than the one that the stream reads. After RESET MASTER, it goes on to send
// the old one, which has no end.
func (r *reading[T]) checkStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.table.patience)
	defer cancel()
	at, place, events := positionOf(r.At), positionOf(r.stream.place()), r.stream.events.Load()+1
	var now position
	for range 2 { // a session that asks at the same time may get an old one
		var err error
		if now, _, err = visible(ctx, r.session); err != nil || now.reaches(at) {
			if err != nil {
				return err
			}
			break
		}
	}
	switch before := r.behind; {
	case !now.reaches(at):
		return fmt.Errorf("%w: its binary log is at %d:%d, not at %d:%d", informer.ErrNewHistory, now.file, now.offset, at.file, at.offset)
	case place.reaches(now):
		r.behind = 0
	case events == before && len(r.pending) == 0 && len(r.stream.batches) == 0:
		return fmt.Errorf("the server sends nothing of its binary log after %d:%d, and is at %d:%d", place.file, place.offset, now.file, now.offset)
	default:
		r.behind = events
	}
	return nil
}

// explained returns the error of a check, if that may be the reason for an error, or else the error.
func (r *reading[T]) explained(ctx context.Context, err error) error {
	if e := new(driver.MySQLError); errors.As(err, &e) || errors.Is(err, informer.ErrExpired) {
		if why := r.check(ctx); why != nil && !errors.Is(why, informer.ErrExpired) {
			err = why
		}
	}
	return err
}

// next returns the next page after a version.
func (r *reading[T]) next(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	ctx, cancel := context.WithTimeout(ctx, r.table.patience)
	defer cancel()
	p, err = r.read(ctx, at)
	if err == nil {
		r.At = p.UpTo
		if p.Then == follow.Wait && r.table.expected.After(p.UpTo) {
			p.Then = follow.Settle
		}
	}
	return p, r.explained(ctx, err)
}

// soon is how long a read waits until the binary log has what a snapshot shows.
const soon = 50 * time.Millisecond

// read reads the next page: the changes up to a position, with the rows of a snapshot that shows them.
func (r *reading[T]) read(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	p.UpTo = at
	if _, err := r.take(); err != nil {
		return p, err
	}
	if place := r.stream.place(); len(r.pending) == 0 && place <= at {
		return p, nil
	}
	shown, _, err := visible(ctx, r.session)
	if err != nil {
		return p, err
	}
	err = r.session.Snapshot(ctx, func() error {
		place, whole, err := r.await(ctx, shown)
		if err != nil {
			return err
		}
		n := 0 // batches that the snapshot shows for sure
		for keys := 0; n < len(r.pending) && keys < mostKeys; n++ {
			b := r.pending[n]
			if !shown.reaches(b.need) && !r.table.broken.early || b.xid != "" {
				break
			}
			keys += len(b.keys)
		}
		batches := r.pending[:n]
		r.pending = r.pending[n:]
		if err := r.report(ctx, &p, batches); err != nil {
			return err
		}
		switch all := len(r.pending) == 0 || !shown.reaches(r.pending[0].need); {
		case !all || !whole:
			p.Then = follow.Again
		case positionOf(place).file == shown.file && positionOf(place).reaches(shown):
			p.UpTo = max(p.UpTo, versionOf(shown, markOf(place)))
		}
		return nil
	})
	if err != nil || len(r.pending) == 0 {
		return p, err
	}
	if p.Then == follow.Wait {
		p.Then = follow.Settle
	}
	return p, r.awaitCommit(ctx, r.pending[0])
}

// take takes batches of the stream, up to a page. It reports whether these are all.
func (r *reading[T]) take() (whole bool, err error) {
	keys := 0
	for _, b := range r.pending {
		keys += len(b.keys)
	}
	for keys < mostKeys {
		select {
		case b, ok := <-r.stream.batches:
			if !ok && len(r.pending) > 0 {
				return true, nil // the error follows
			}
			if !ok {
				return false, r.stream.err
			}
			r.pending = append(r.pending, b)
			keys += len(b.keys)
		default:
			return true, nil
		}
	}
	return false, nil
}

// await waits until the stream has come to a position, but not for long, and takes batches. It returns the place of the stream, and
// whether all batches before it are taken.
func (r *reading[T]) await(ctx context.Context, to position) (place informer.Version, whole bool, err error) {
	for begun := time.Now(); ; {
		place = r.stream.place()
		before := len(r.pending)
		whole, err = r.take()
		if err != nil || !whole || positionOf(place).reaches(to) || time.Since(begun) > soon || r.table.broken.early {
			return place, whole, err
		}
		if len(r.pending) == before {
			if err := wait.Sleep(ctx, 100*time.Microsecond); err != nil {
				return place, whole, err
			}
		}
	}
}

// awaitCommit waits until the commit of a prepared transaction is visible, but not for long. The server writes it into the log before the engine
// knows it, and lists the transaction as prepared until then.
func (r *reading[T]) awaitCommit(ctx context.Context, b *batch) error {
	for begun := time.Now(); b.xid != "" && time.Since(begun) < soon; {
		now, err := prepared(ctx, r.session)
		if err != nil {
			return err
		}
		if !slices.Contains(now, b.xid) {
			b.xid = ""
		} else if err := wait.Sleep(ctx, 200*time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// report reads the rows of batches, and adds their events to p.
func (r *reading[T]) report(ctx context.Context, p *follow.Page[informer.Event[T]], batches []*batch) (err error) {
	type entry struct{ last, at informer.Version }
	var keys []string
	var entries []entry
	first := map[string]bool{}
	for _, b := range batches {
		for i, key := range b.keys {
			if first[key] {
				continue // its row is the same
			}
			first[key] = true
			e := entry{last: p.UpTo, at: p.UpTo}
			if i == len(b.keys)-1 {
				e.at = max(p.UpTo, b.at)
			}
			keys, entries = append(keys, key), append(entries, e)
		}
		p.UpTo = max(p.UpTo, b.at)
		if b.compare && r.mayCompare.Before(r.verifyAt) {
			r.verifyAt = r.mayCompare
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := putKeys(ctx, r.session, r.schema, keys); err != nil {
		return err
	}
	rows, err := r.session.QueryContext(ctx, keysSQL(r.schema))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var n int
	read := r.table.reader.Entries(rows, &n)
	for {
		ok, err := read.Next()
		if err != nil || !ok {
			return err
		}
		if p.Events, err = read.AddTo(p.Events, entries[n].last, entries[n].at, &r.Report); err != nil {
			return err
		}
	}
}

// changed reports whether there is anything to do.
func (r *reading[T]) changed(_ context.Context, at informer.Version) (bool, error) {
	return len(r.pending) > 0 || len(r.stream.batches) > 0 || r.stream.place() > at || r.comparing != nil || !time.Now().Before(r.verifyAt) ||
		r.table.expected.After(at), nil
}

// rest does what a watch does now and then.
func (r *reading[T]) rest(ctx context.Context) (err error) {
	if time.Now().After(r.checkAt) {
		err = cmp.Or(r.check(ctx), r.checkStream(ctx))
	}
	return cmp.Or(err, r.verify(ctx))
}

// costOfComparisons is how much longer than a comparison has taken a watch waits before the log can suggest the next one.
const costOfComparisons = 20

// verify begins a comparison, or ends one that has read all rows and to which the watch has come.
func (r *reading[T]) verify(ctx context.Context) error {
	t := r.table
	if r.comparing == nil {
		switch {
		case time.Now().Before(r.verifyAt):
		case r.Rows == nil:
			return lost("nobody knows what was reported before the watch began, so a list compares")
		default:
			r.verifyAt = time.Now().Add(t.cfg.Verify) // or earlier, if the log suggests it again
			r.comparing = t.reader.Compare(ctx, &r.Report, t.db, t.patience, listSQL(r.schema), func(ctx context.Context, s usertable.Session) (informer.Version, error) {
				p, _, err := visible(ctx, s)
				return versionOf(p, 0), err
			})
		}
		return nil
	}
	if !r.comparing.IsDone() {
		return nil
	}
	d, took, err := r.comparing.Differences()
	r.comparing.End()
	r.comparing = nil
	r.mayCompare = time.Now().Add(costOfComparisons * took)
	if !r.mayCompare.Before(r.verifyAt) {
		r.verifyAt = r.mayCompare
	}
	if err != nil || d == (usertable.Differences{}) {
		return err
	}
	t.cfg.Logger.WarnContext(ctx, "a table has changed without its binary log, so a watch lists again",
		"table", t.cfg.Table, "added", d.Added, "changed", d.Changed, "gone", d.Gone)
	return lost("the table has changed without its binary log")
}
