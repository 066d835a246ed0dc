package logs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/history"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/script"
	"tollgate/rediskv/streams"
)

const (
	// mostRanges bounds the size of a line, and mostBytes that of a pack before it is
	// compressed.
	mostRanges = 1000
	mostBytes  = 256 << 20
	readPage   = 250
	// unfinished is after how long a file is removed that is still being put on a shelf:
	// whoever did so has died.
	unfinished = 24 * time.Hour
)

type (
	addLogsKeys struct{ Manifest string }
	addLogsArgs struct {
		Number int64
		Line   string
	}
)

var scriptAddLogs = script.New[addLogsKeys, addLogsArgs](lua, "add_logs")

// Pack puts what is due of logs of a partition into packs, oldest first of each log, until
// nothing is left or what is left waits for more. It implements eventlog.Archive.
func (s *Store) Pack(ctx context.Context, partition int, log string, keep tollgate.Instant, due []eventlog.Due) error {
	if len(due) == 0 {
		return nil
	}
	s.packing.Lock()
	defer s.packing.Unlock()
	now, err := s.db.HistoryFor(ctx, due[0].Space.Org)
	if err != nil || !now.Open {
		return err
	}
	ctx = history.Within(ctx, now.ID)
	due = slices.SortedFunc(slices.Values(due), func(a, b eventlog.Due) int { return strings.Compare(a.Space.Org, b.Space.Org) })
	for made := true; made && err == nil; {
		made, err = s.turn(ctx, partition, log, keep, due, now.ID)
	}
	return err
}

// turn makes one pack, if it is time to.
func (s *Store) turn(ctx context.Context, partition int, log string, keep tollgate.Instant, due []eventlog.Due, in string) (made bool, err error) {
	m, err := s.manifest(ctx, partition)
	if err != nil {
		return false, err
	}
	c, err := s.choose(ctx, log, due)
	if err != nil || !c.due(s.Rows, keep.Add(-s.Wait)) {
		return false, err
	}
	if err := s.ready(ctx, m); err != nil {
		return false, err
	}
	p, err := s.seal(ctx, partition, log, c)
	if err != nil {
		return false, err
	}
	defer p.discard()
	if len(p.ranges) == 0 {
		return false, nil
	}
	l, err := s.shelve(ctx, p, m, in)
	if err != nil {
		return false, fmt.Errorf("archive of logs: %w", err)
	}
	if err := s.add(ctx, l, p); err != nil {
		if errors.Is(err, rediskv.ErrConflict) {
			if err := s.outdated(ctx, l, p); err != nil {
				return false, err
			}
		}
		return false, conflict(err)
	}
	s.step(partition, "added to the manifest")
	return true, nil
}

// ready reports that a shelf lacks the newest line: a volume that is not mounted is an empty
// directory.
func (s *Store) ready(ctx context.Context, m *manifest) error {
	if len(m.lines) == 0 {
		return nil
	}
	for _, on := range s.Shelves {
		if _, err := on.Text(ctx, m.lines[len(m.lines)-1].Name()); err != nil {
			return unavailable(fmt.Errorf("the archive is not there: %w", err))
		}
	}
	return nil
}

// stretch is what is due of one log, behind what packs have of it.
type stretch struct {
	k           rediskv.Space
	before      string           // what Redis says that packs have
	times       string           // how often entries of the log have been written anew
	has         *eventlog.Packed // the same; nil: nothing
	from, until string           // places: behind the first, and before the second
}

// choice is what a turn may put into a pack.
type choice struct {
	stretches []stretch
	entries   int64            // about how many these are
	oldest    tollgate.Instant // when the first of them was written, by Redis' time
}

// due reports whether it is time to make a pack: of as many entries as it can have, or of
// some that have waited, as they are older than before.
func (c *choice) due(rows int, before tollgate.Instant) bool {
	return len(c.stretches) > 0 && (c.entries >= int64(rows) || len(c.stretches) > mostRanges || c.oldest < before)
}

// choose looks for what is due: at the ends of logs alone.
func (s *Store) choose(ctx context.Context, log string, due []eventlog.Due) (*choice, error) {
	c := &choice{}
	for some := range slices.Chunk(due, rediskv.ReadTogether) {
		texts, times := make([]*redis.StringCmd, len(some)), make([]*redis.StringCmd, len(some))
		if err := s.db.Timed(ctx, "packed_logs", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for i, d := range some {
				texts[i], times[i] = pipe.Get(ctx, eventlog.PackedKey(d.Space, log)), pipe.Get(ctx, streams.Rewritten(d.Space.Object(log)))
			}
			return rediskv.Answered(pipe.Exec(ctx))
		}); err != nil {
			return nil, err
		}
		for i, d := range some {
			if err := s.chooseOf(ctx, c, log, d, texts[i].Val(), times[i].Val()); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

func (s *Store) chooseOf(ctx context.Context, c *choice, log string, d eventlog.Due, before, times string) error {
	if d.Until <= 0 {
		return nil
	}
	has, err := eventlog.PackedOf(eventlog.PackedKey(d.Space, log), before)
	if err != nil {
		return unavailable(err)
	}
	one := stretch{k: d.Space, before: before, times: times, has: has, from: "-", until: "(" + rediskv.Milli(d.Until) + "-0"}
	if has != nil {
		one.from = "(" + has.Last
	}
	key := d.Space.Object(log)
	first, err := streams.Range(ctx, s.db, key, one.from, one.until, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	if len(first[0].Values) == 0 { // it keeps no other log waiting
		s.unreadable(log, d.Space, first[0])
		return nil
	}
	last, err := streams.RevRange(ctx, s.db, key, one.until, one.from, 1)
	if err != nil || len(last) == 0 {
		return err
	}
	c.entries += max(1, eventlog.NumberOf(last[0])-eventlog.NumberOf(first[0])+1)
	at := tollgate.Instant(eventlog.Place(first[0].ID).Milli)
	if len(c.stretches) == 0 || at < c.oldest {
		c.oldest = at
	}
	c.stretches = append(c.stretches, one)
	return nil
}

// sealing is a pack that is being made.
type sealing struct {
	partition int
	log       string
	file      *os.File
	pack      *packs.Writer
	sums      [][sha256.Size]byte // of each row
	keys      []string            // of each row, of a worker
	bytes     int
	ranges    []Range
	of        []stretch // of each range
	summary   packs.Summary
	replaces  int64 // the line that it is to stand in for; 0: none
}

func (p *sealing) discard() {
	if p.file != nil {
		_ = p.file.Close()
		_ = os.Remove(p.file.Name())
	}
}

// seal writes what was chosen to a pack, as much as that can have.
func (s *Store) seal(ctx context.Context, partition int, log string, c *choice) (p *sealing, err error) {
	p = &sealing{partition: partition, log: log}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	if p.file, err = os.CreateTemp(s.Scratch, "tollgate-logs-*"); err != nil {
		return p, fmt.Errorf("archive of logs: %w", err)
	}
	_ = os.Remove(p.file.Name()) // where that can be done: it goes with this process, however that ends
	p.pack = packs.NewWriter(p.file, log, partition)
	for _, one := range c.stretches {
		if len(p.ranges) == mostRanges || p.full(s.Rows) {
			break
		}
		if err := s.sealOf(ctx, p, one); err != nil {
			return p, err
		}
	}
	if len(p.ranges) == 0 {
		return p, nil
	}
	s.step(partition, "written")
	p.summary, err = p.pack.Close()
	return p, err
}

func (p *sealing) full(rows int) bool { return len(p.sums) >= rows || p.bytes >= mostBytes }

// sealOf adds a log's entries. It ends before those of a segment that cannot be read: they
// stay in Redis, where a check names them.
func (s *Store) sealOf(ctx context.Context, p *sealing, one stretch) error {
	r := Range{Organization: one.k.Org}
	for from := one.from; !p.full(s.Rows); {
		page, err := streams.Range(ctx, s.db, one.k.Object(p.log), from, one.until, min(readPage, s.Rows-len(p.sums)))
		if err != nil {
			return err
		}
		for _, m := range page {
			if len(m.Values) == 0 {
				s.unreadable(p.log, one.k, m)
				page = nil
				break
			}
			if err := p.add(&r, one.k.Org, m); err != nil {
				return err
			}
		}
		if len(page) < min(readPage, s.Rows) {
			break
		}
		from = "(" + page[len(page)-1].ID
	}
	if r.Entries > 0 {
		p.ranges, p.of = append(p.ranges, r), append(p.of, one)
	}
	return nil
}

func (s *Store) unreadable(log string, k rediskv.Space, m redis.XMessage) {
	s.db.Log.Error("a part of a log stays in Redis, as it cannot be read", "log", log, "organization", k.Org, "entry", m.ID)
}

func (p *sealing) add(r *Range, org string, m redis.XMessage) error {
	key, text, err := rowOf(org, m)
	if err == nil {
		err = p.pack.Add(key, text)
	}
	if err != nil {
		return err
	}
	p.sums, p.keys, p.bytes = append(p.sums, sha256.Sum256(text)), append(p.keys, key), p.bytes+len(text)
	if r.LastSequence = eventlog.NumberOf(m); r.Entries == 0 {
		r.First, r.FirstSequence = m.ID, r.LastSequence
	}
	r.Last = m.ID
	r.Entries++
	if made, ok := tollgate.IDTime(eventlog.IDOf(m)); ok {
		at := tollgate.At(made)
		if r.Until = max(r.Until, at); r.From == 0 || at < r.From {
			r.From = at
		}
	}
	return nil
}

// shelve puts the pack on the shelves, reads it back from there, and then puts its line there.
func (s *Store) shelve(ctx context.Context, p *sealing, m *manifest, in string) (*Line, error) {
	l := &Line{
		Format: format, Number: m.last() + 1, Partition: p.partition, Log: p.log, Pack: p.summary, Ranges: p.ranges,
		SealedAt: s.db.Now(), HistoryID: in, Previous: m.digest(),
	}
	if p.replaces != 0 {
		l.Format, l.Replaces = formatReplaces, p.replaces
	}
	if err := l.sealed(); err != nil {
		return nil, err
	}
	if len(l.text) > shelf.MaxText {
		return nil, fmt.Errorf("a line of the manifest has %d bytes", len(l.text))
	}
	for _, on := range s.Shelves {
		if _, err := p.file.Seek(0, 0); err != nil {
			return nil, err
		}
		if err := on.Put(ctx, l.packName(), p.summary.Size, p.file); err != nil {
			return nil, err
		}
		s.step(p.partition, "put "+l.packName())
		if err := shelves.ReadBack(ctx, on, l.packName(), p.summary, p.sums); err != nil {
			return nil, fmt.Errorf("reading %s back: %w", l.packName(), err)
		}
		s.step(p.partition, "read "+l.packName()+" back")
	}
	for _, on := range s.Shelves {
		if err := on.Put(ctx, l.Name(), int64(len(l.text)), strings.NewReader(l.text)); err != nil {
			return nil, err
		}
		if s.db.Wall != nil { // by which files have their times
			if _, err := on.Sweep(ctx, s.db.Wall().Add(-unfinished)); err != nil {
				return nil, err
			}
		}
		s.step(p.partition, "put "+l.Name())
	}
	return l, nil
}

// add adds a line to the manifest, and what packs have of each log now.
func (s *Store) add(ctx context.Context, l *Line, p *sealing) error {
	key := eventlog.LogsKey(l.Partition)
	inv := scriptAddLogs.With(addLogsKeys{key}, addLogsArgs{l.Number, stored(key, l)})
	inv.Grow(2*len(p.of), 3*len(p.of))
	for i, one := range p.of {
		r, at := &p.ranges[i], eventlog.PackedKey(one.k, l.Log)
		has := eventlog.Packed{First: r.First, Last: r.Last, Sequence: r.LastSequence, Until: r.Until, Entries: r.Entries}
		if one.has != nil {
			has.First, has.Until, has.Entries = one.has.First, max(has.Until, one.has.Until), has.Entries+one.has.Entries
		}
		text, err := has.Stored(at)
		if err != nil {
			return err
		}
		inv.Keys, inv.Args = append(inv.Keys, at, streams.Rewritten(one.k.Object(l.Log))), append(inv.Args, one.before, text, one.times)
	}
	_, _, err := s.db.Run(ctx, inv)
	return err
}
