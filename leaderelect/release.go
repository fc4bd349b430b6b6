package leaderelect

import "context"

// releaseAttempts bounds the writes of a release: one, and one after each look at what became of the one before.
const releaseAttempts = 3

// release replaces our record by a tombstone with the same term. The work must have returned. It replaces only the version
// that was last seen to be ours, so it cannot touch the record of a successor. If that version is not known, release reads
// the record first. It writes nothing if the store went back to an older record.
func (e *Elector) release(ctx context.Context, t *tenure, read bool) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), e.cfg.RequestTimeout, errNoReply)
	defer cancel()
	e.done = max(e.done, t.term) // a tombstone that is under way may replace a record of this term, and only of this
	e.mu.Lock()
	successor := e.successor
	e.mu.Unlock()
	var err error
	for range releaseAttempts {
		if read {
			var v view
			if v, err = e.read(ctx); err != nil {
				break
			}
			regressed := e.seen.regressed(v)
			if v.exists && !regressed {
				e.seen.raise(v.rec)
			}
			if regressed || !v.held() || v.rec.Incarnation != e.incarnation || v.rec.Term != t.term {
				e.publish(v)
				return // it is not ours; if the store went back to one of ours, another may lead a later term
			}
			t.version, t.acquired = v.version, v.rec.AcquireTime
		}
		var rec record
		sent := beginning()
		rec, _, err = e.write(ctx, t.version, record{Term: t.term, AcquireTime: t.acquired, Preferred: successor}, sent)
		if err == nil {
			e.seen.raise(rec)
			e.publish(view{exists: true, readable: true, rec: rec})
			return
		}
		read = true
	}
	e.log.WarnContext(ctx, "leaderelect: releasing the lease failed", "term", t.term, "error", err)
}
