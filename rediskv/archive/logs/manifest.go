package logs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/record"
)

// Formats of lines. A release that does not know what it means to replace a line refuses those
// that do.
const (
	format         = "tollgate-logs/1"
	formatReplaces = "tollgate-logs/2" // with Replaces
)

// Line is one of the manifest: a pack of ranges of logs.
type Line struct {
	Format    string           `json:"format"`
	Number    int64            `json:"number"`
	Partition int              `json:"partition"`
	Log       string           `json:"log"` // which log of each organization: "events" or "audit"
	Pack      packs.Summary    `json:"pack"`
	Ranges    []Range          `json:"ranges"` // in the order of organizations
	SealedAt  tollgate.Instant `json:"sealed_at"`
	HistoryID string           `json:"history_id"`
	Previous  string           `json:"previous"` // SHA-256 of the line before; empty in the first
	// Replaces is the number of a line that this one stands in for: its pack has the same
	// ranges, of which some entries were erased, and the other one's is gone. 0: of none.
	Replaces int64 `json:"replaces,omitzero"`

	text string
}

// Range is a part of an organization's log: all of it between two places, both included.
type Range struct {
	Organization  string           `json:"organization_id"`
	First         string           `json:"first"`
	Last          string           `json:"last"`
	FirstSequence int64            `json:"first_sequence"` // 0 if it could not be read
	LastSequence  int64            `json:"last_sequence"`
	Entries       int64            `json:"entries"`
	From          tollgate.Instant `json:"from"`  // the earliest time in an identifier
	Until         tollgate.Instant `json:"until"` // and the latest
}

// Text is the line as Redis and the shelves have it.
func (l *Line) Text() string { return l.text }

// From and Until are the times of the first and the last entry.
func (l *Line) From() tollgate.Instant {
	return slices.MinFunc(l.Ranges, func(a, b Range) int { return int(a.From - b.From) }).From
}

// Until is the other one.
func (l *Line) Until() tollgate.Instant {
	return slices.MaxFunc(l.Ranges, func(a, b Range) int { return int(a.Until - b.Until) }).Until
}

func (l *Line) digest() string {
	sum := sha256.Sum256([]byte(l.text))
	return hex.EncodeToString(sum[:])
}

// Name is that of the line's file on a shelf.
func (l *Line) Name() string {
	return fmt.Sprintf("%s%06d-%.16s.json", manifestFolder(l.Partition), l.Number, l.digest())
}

func manifestFolder(partition int) string { return fmt.Sprintf("logs/manifest/p%02d/", partition) }

func packFolder(partition int) string { return fmt.Sprintf("logs/packs/p%02d/", partition) }

// packName is that of its pack's file.
func (l *Line) packName() string { return packFolder(l.Partition) + packs.FileName(l.Pack.SHA256) }

func (l *Line) sealed() error {
	text, err := json.Marshal(l, json.Deterministic(true))
	l.text = string(text)
	return err
}

// ParseLine reads the text of a line.
func ParseLine(text string) (*Line, error) {
	l := &Line{text: text}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, fmt.Errorf("line of the manifest of logs: %w", err)
	}
	switch {
	case l.Format == format && l.Replaces == 0:
	case l.Format == formatReplaces && l.Replaces > 0 && l.Replaces < l.Number:
	default:
		return nil, fmt.Errorf("line %d of the manifest of logs has format %q, and this release knows %q and %q", l.Number, l.Format, format, formatReplaces)
	}
	if len(l.Ranges) == 0 {
		return nil, fmt.Errorf("line %d of the manifest of logs has no ranges", l.Number)
	}
	return l, nil
}

func lineKey(manifest string, number int64) string {
	return manifest + ":" + strconv.FormatInt(number, 10)
}

// stored is a line as Redis has it: with the checksum of what would be at a key of its own.
func stored(manifest string, l *Line) string {
	return record.EnvelopedJSON(lineKey(manifest, l.Number), l.text)
}

// manifest is what Redis has of a partition, as it was read. It does not change.
type manifest struct {
	lines []*Line
	force []*Line           // those that none stands in for, each at the place of the one that it replaces
	of    map[string][]part // by log and organization, in the order of the log
}

// part is a range, and the line that has it.
type part struct {
	*Range
	line *Line
}

func (m *manifest) last() int64 { return int64(len(m.lines)) }

// digest is that of the last line, which the next one names; empty without any.
func (m *manifest) digest() string {
	if len(m.lines) == 0 {
		return ""
	}
	return m.lines[len(m.lines)-1].digest()
}

func nameOf(log, org string) string { return log + " of " + org }

// with is the manifest with more lines behind it.
func (m *manifest) with(more []*Line) *manifest {
	next := &manifest{slices.Concat(m.lines, more), slices.Clone(m.force), maps.Clone(m.of)}
	if next.of == nil {
		next.of = map[string][]part{}
	}
	for _, l := range more {
		if at := slices.IndexFunc(next.force, func(is *Line) bool { return is.Number == l.Replaces }); at >= 0 {
			next.standsIn(l, next.force[at])
			next.force[at] = l
			continue
		}
		next.force = append(next.force, l)
		for i := range l.Ranges {
			name := nameOf(l.Log, l.Ranges[i].Organization)
			next.of[name] = append(slices.Clip(next.of[name]), part{&l.Ranges[i], l})
		}
	}
	return next
}

// standsIn puts the ranges of a line in the place of those of another one.
func (m *manifest) standsIn(l, was *Line) {
	for i := range l.Ranges {
		name := nameOf(l.Log, l.Ranges[i].Organization)
		parts := slices.Clone(m.of[name])
		for n := range parts {
			if parts[n].line == was {
				parts[n] = part{&l.Ranges[i], l}
			}
		}
		m.of[name] = parts
	}
}

// manifest is that of a partition as it is now: what is known of it, with what has come since.
func (s *Store) manifest(ctx context.Context, partition int) (*manifest, error) {
	s.lock.Lock()
	known := s.known[partition]
	s.lock.Unlock()
	if known == nil {
		known = &manifest{}
	}
	key := eventlog.LogsKey(partition)
	var head *redis.SliceCmd
	var fields *redis.IntCmd
	if err := s.db.Timed(ctx, "logs_manifest", func(ctx context.Context) error {
		return s.db.AtOnce(ctx, func(pipe redis.Pipeliner) {
			head, fields = pipe.HMGet(ctx, key, "n", strconv.FormatInt(known.last(), 10)), pipe.HLen(ctx, key)
		})
	}); err != nil {
		return nil, err
	}
	f := record.FieldsIn(head.Val(), "n", "line")
	n := f.Int("n")
	if fields.Val() != n+1 && fields.Val() != 0 {
		return nil, unavailable(fmt.Errorf("the manifest of the logs of partition %d says that it has %q lines, and has %d", partition, f["n"], fields.Val()-1))
	}
	if known.last() > n || known.last() > 0 && f["line"] != stored(key, known.lines[known.last()-1]) {
		known = &manifest{} // it is that of another history
	}
	if known.last() == n {
		return known, nil
	}
	const together = 100
	var more []*Line
	for first := known.last() + 1; first <= n; first += together {
		var names []string
		for i := first; i <= min(n, first+together-1); i++ {
			names = append(names, strconv.FormatInt(i, 10))
		}
		var reply *redis.SliceCmd
		if err := s.db.Timed(ctx, "logs_manifest", func(ctx context.Context) error {
			reply = s.db.Redis.HMGet(ctx, key, names...)
			return reply.Err()
		}); err != nil {
			return nil, err
		}
		for i, v := range reply.Val() {
			text, _ := v.(string)
			l, err := lineOf(key, partition, first+int64(i), text)
			if err != nil {
				return nil, unavailable(err)
			}
			more = append(more, l)
		}
	}
	next := known.with(more)
	s.lock.Lock()
	s.known[partition] = next
	s.lock.Unlock()
	return next, nil
}

// lineOf reads a line as Redis has it.
func lineOf(key string, partition int, number int64, text string) (*Line, error) {
	text, err := record.Opened(lineKey(key, number), text)
	if err != nil {
		return nil, err
	}
	l, err := ParseLine(text)
	if err == nil && (l.Number != number || l.Partition != partition) {
		err = fmt.Errorf("line %d of the manifest of the logs of partition %d is number %d of %d", number, partition, l.Number, l.Partition)
	}
	return l, err
}

// Manifest are the lines of a partition that are in force.
func (s *Store) Manifest(ctx context.Context, partition int) ([]*Line, error) {
	m, err := s.manifest(ctx, partition)
	if err != nil {
		return nil, err
	}
	return m.force, nil
}

// conflict is no error: another worker was faster.
func conflict(err error) error {
	if errors.Is(err, rediskv.ErrConflict) || errors.Is(err, rediskv.ErrStale) {
		return nil
	}
	return err
}
