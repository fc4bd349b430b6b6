package leasetest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

func TestSuiteDetectsEveryMistake(t *testing.T) {
	for mistake, s := range map[string]*broken{
		"Get invents a record":        {inventive: true},
		"Get goes back":               {forgetsReads: true},
		"Create replaces":             {createReplaces: true},
		"Update creates":              {updateCreates: true},
		"Update ignores the version":  {blind: true},
		"Update takes no version":     {versionless: true},
		"Update compares a prefix":    {prefix: true},
		"the version is a checksum":   {checksum: true},
		"the version wraps":           {wraps: true},
		"the version is empty":        {unversioned: true},
		"the old version is returned": {returnsOld: true},
		"Update is not atomic":        {racy: true},
		"the term is dropped":         {termless: true},
		"the term is 32 bits":         {shortTerm: true},
		"a first term is 32 bits":     {createShort: true},
		"the floor is that of a call": {floorGiven: true},
		"Get has no floor":            {floorless: true},
		"the end is its cause":        {causes: true},
		"keys ignore case":            {mapKey: strings.ToLower},
		"keys are trimmed":            {mapKey: strings.TrimSpace},
		"keys end at NUL":             {mapKey: func(k string) string { k, _, _ = strings.Cut(k, "\x00"); return k }},
		"keys are cut":                {mapKey: func(k string) string { return k[:min(len(k), 255)] }},
		"values are trimmed":          {mapValue: bytes.TrimSpace},
		"values end at NUL":           {mapValue: func(v []byte) []byte { v, _, _ = bytes.Cut(v, []byte{0}); return v }},
		"values are cut":              {mapValue: func(v []byte) []byte { return v[:min(len(v), 4096)] }},
		"values are not copied":       {aliases: true},
		"contexts are ignored":        {ignoresContext: true},
		"an end is a conflict":        {endIs: leaderelect.ErrConflict},
		"an end is not found":         {endIs: leaderelect.ErrNotFound},
		"it is empty after Reopen":    {forgetful: true},
		"not found is an error":       {vague: true},
		"a conflict is an error":      {vagueConflict: true},

		"Create takes the given version":    {createVersion: true},
		"each handle counts its versions":   {handleVersions: true},
		"terms end at 2^63-1":               {clampTerm: true},
		"values are cut at 1 MiB":           {mapValue: func(v []byte) []byte { return v[:min(len(v), 1<<20)] }},
		"values are cut at 128 KiB":         {mapValue: func(v []byte) []byte { return v[:min(len(v), 128<<10)] }},
		"only a cancel ends a call":         {deadlines: true},
		"a creation undoes those of others": {slowFile: true},
		"keys become UTF-8":                 {mapKey: func(k string) string { return strings.ToValidUTF8(k, "\ufffd") }, listMatch: func(k, p string) bool { return strings.HasPrefix(k, p) }},
		"keys that are numbers are equal":   {mapKey: func(k string) string { return number(k) }},
		"keys ignore the case of letters":   {mapKey: func(k string) string { return strings.Map(foldUmlauts, k) }},
		"keys lose their last line break":   {mapKey: func(k string) string { return strings.TrimSuffix(k, "\n") }},
		"List has a page of 1,000":          {listPage: 1000},
		"a watch sees only this handle":     {watchOwn: true},
		"one watch sees a change":           {watchOne: true},
		"a watch misses what its body does": {watchGap: true},
		"a watch compares values":           {watchSame: true},
		"List looks inside of keys":         {listMatch: strings.Contains},
		"List treats % as a wildcard":       {listMatch: func(k, p string) bool { return strings.HasPrefix(k, strings.TrimRight(p, "%")) }},
		"List returns one record":           {listMatch: func(k, p string) bool { return k == p }},
		"List is not in order":              {listUnsorted: true},
		"List returns only the keys":        {listKeys: true},
		"List is cut":                       {listCut: true},
		"List ignores its context":          {listIgnoresContext: true},
		"List is older than Get":            {listLags: true},
		"List returns deleted ones":         {listDeleted: true},
		"List has no floors":                {listFloorless: true},
		"List returns no copies":            {listAliases: true},

		"a watch begins with a change":          {watchLater: true},
		"a watch begins with an old state":      {watchStale: true},
		"a watch reports other keys":            {watchAll: true},
		"a watch misses changes":                {watchSilent: true},
		"a watch goes back":                     {watchBack: true},
		"a watch is silent about deletions":     {watchNoDelete: true},
		"a watch reports the deleted state":     {watchTombstone: true},
		"a watch does not end":                  {watchEndless: true},
		"a watch leaves a goroutine behind":     {watchLeaks: true},
		"a watch begins before a read":          {watchLags: true},
		"a watch cuts its key":                  {watchKey: func(k string) string { return k[:min(len(k), 63)] }},
		"a watch follows a prefix":              {watchPrefix: true},
		"a watch reports no copies":             {watchAliases: true},
		"a watch does not say what was deleted": {watchKeyless: true},
		"a missing record has a floor":          {watchFloor: true},
		"a watch with an ended context":         {watchEnded: true},

		"a record expires":                    {expires: 50 * time.Millisecond},
		"a renewed record expires":            {expires: 5 * time.Second, onlyRenewals: true},
		"versions restart after a deletion":   {deleteRestarts: true},
		"floors restart after a deletion":     {floorRestarts: true},
		"floors stay":                         {floorStays: true},
		"a call hangs":                        {hangs: true},
		"a watch hangs":                       {watchHangs: true},
		"a call that ends is a conflict":      {dropIs: leaderelect.ErrConflict},
		"a call that ends is not found":       {dropIs: leaderelect.ErrNotFound},
		"a call that ends was successful":     {dropSucceeds: true},
		"a lost reply is a conflict":          {cutIs: leaderelect.ErrConflict},
		"a lost reply undoes half of a write": {cutTears: true},
		"a call waits for a lock":             {lockHangs: true},
		"a canceled call waits for the lock":  {lockDeadline: true},
		"a call that waited is a conflict":    {lockIs: leaderelect.ErrConflict},
		"a call does not wait for a lock":     {lockSucceeds: true},
		"a restart forgets a write":           {restartForgets: true},
		"a restart reuses versions":           {restartRewinds: true},

		"a guard lets everything pass":                {guardPass: true},
		"a guard lets greater terms pass":             {guardGreater: true},
		"a guard checks any record":                   {guardAnyKey: true},
		"a guard compares 32 bits":                    {guardShort: true},
		"a guard does not see a deletion":             {guardGone: true},
		"a guard takes no record for term 0":          {guardZero: true},
		"a guard rejects everything":                  {guardRefuse: true},
		"a guard returns another error":               {guardVague: true},
		"a guard calls the function before its check": {guardEager: true},
		"a takeover does not wait":                    {guardFree: true},
		"a renewal waits for a guarded write":         {guardHolds: true},
		"a leadership guards by another key":          {leadingAnyKey: true},
		"a guard needs no leadership":                 {leadingNobody: true},
		"a guard locks all records":                   {guardAll: true},
	} {
		t.Run(mistake, func(t *testing.T) {
			if failed := failure(t, s, (*broken).backend, cases()); failed == "" {
				t.Error("the store passes")
			}
		})
	}
}

// number returns the shortest form of a number, as a column with a numeric type has it.
func number(k string) string {
	if f, err := strconv.ParseFloat(k, 64); err == nil {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return k
}

// foldUmlauts is a collation that ignores the case of letters that are not ASCII.
func foldUmlauts(r rune) rune {
	if r > unicode.MaxASCII {
		return unicode.ToLower(r)
	}
	return r
}

func TestCorrectStorePasses(t *testing.T) {
	if failed := failure(t, &broken{}, (*broken).backend, cases()); failed != "" {
		t.Errorf("the store fails: %s", failed)
	}
}

func TestMinimalBackendPassesWithSkips(t *testing.T) {
	failed, skipped := 0, 0
	for _, c := range cases() {
		r := run(c, func() Backend { return Backend{Store: plain{memlease.New()}} })
		if r.failed {
			failed++
		}
		if r.skipped != "" {
			skipped++
		}
	}
	if failed != 0 {
		t.Errorf("failed = %d, want 0", failed)
	}
	if want := len(faultCases) + len(watchCases) + len(listCases) + len(guardCases) + len(sessionCases) + 1; skipped != want {
		t.Errorf("skipped = %d, want %d", skipped, want)
	}
}

// plain hides what else a store can do.
type plain struct{ leaderelect.LeaseStore }

// failure returns the name of the first case that a store with the mistakes of s fails, in time that is not real. open makes the backend.
func failure(t *testing.T, s *broken, open func(*broken) Backend, cases []testCase) (name string) {
	for _, c := range cases {
		if name != "" {
			break
		}
		synctest.Test(t, func(*testing.T) {
			b := s.fresh()
			end := sync.OnceFunc(func() { close(b.over) })
			defer end()
			time.AfterFunc(time.Hour, end)
			if run(c, func() Backend { return open(b) }).failed {
				name = c.name
			}
		})
	}
	return name
}

// run runs a case and what it cleans up.
func run(c testCase, open func() Backend) *recorder {
	r := &recorder{}
	done := make(chan struct{})
	go func() { // because Fatalf ends it
		defer close(done)
		c.test(r, open())
	}()
	<-done
	for _, f := range r.cleanups {
		f()
	}
	return r
}

// recorder is a testing.TB for a case that is meant to fail.
type recorder struct {
	testing.TB
	failed   bool
	skipped  string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Skip(why ...any) {
	r.skipped = why[0].(string)
	runtime.Goexit()
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func (r *recorder) Fatalf(string, ...any) {
	r.failed = true
	runtime.Goexit()
}

var (
	errVague   = errors.New("something went wrong")
	errRefused = errors.New("refused")
)

// sleep lets time pass, as a call does that goes over a network.
func sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}
