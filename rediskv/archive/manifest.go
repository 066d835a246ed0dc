package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/record"
)

// Formats of lines. A line of the first one has no lists: those stay in Redis. A release that
// does not know what it means to replace a line refuses those that do.
const (
	format         = "tollgate-archive/2"
	format1        = "tollgate-archive/1"
	formatReplaces = "tollgate-archive/3" // with Replaces, and lists if the line in whose place it is has them
)

// Kinds of packs.
const (
	kindPayments = "payments" // rows are payments (payments.Archived), by their identifiers
	kindParts    = "parts"    // rows are part, by what all identifiers of a payment share
)

// part is where a payment is that something belongs to: the time in its identifier.
type part struct {
	ID string `json:"id"`
	At string `json:"at"`
}

// Line is one of the manifest: a pack of payments, the one by which they are found from what
// belongs to them, and the one with what lists had of them.
type Line struct {
	Format    string           `json:"format"`
	Number    int64            `json:"number"`
	Partition int              `json:"partition"`
	Payments  packs.Summary    `json:"payments"`
	Parts     packs.Summary    `json:"parts"`
	Lists     *packs.Summary   `json:"lists,omitzero"`
	From      tollgate.Instant `json:"from"`  // when the first of it was made
	Until     tollgate.Instant `json:"until"` // when the last was, of anything that belongs to these payments
	SealedAt  tollgate.Instant `json:"sealed_at"`
	HistoryID string           `json:"history_id"`
	Previous  string           `json:"previous"` // SHA-256 of the line before; empty in the first
	// Replaces is the number of a line that this one stands in for: its pack has the same
	// payments, of which some were erased, and the other one's is gone. 0: of none.
	Replaces int64 `json:"replaces,omitzero"`
	// Erased is the fence of before its payments were read. One that is behind that of Redis
	// was refused, and may have what is erased: it is never taken back.
	Erased int64 `json:"erased,omitzero"`

	text string
	rank int64 // the number of the line that it stands in for in the end, or its own
}

// Text is the line as Redis and the shelf have it.
func (l *Line) Text() string { return l.text }

func (l *Line) digest() string {
	sum := sha256.Sum256([]byte(l.text))
	return hex.EncodeToString(sum[:])
}

// Name is that of the line's file on the shelf.
func (l *Line) Name() string {
	return fmt.Sprintf("manifest/p%02d/%06d-%.16s.json", l.Partition, l.Number, l.digest())
}

// packs are those that the line names.
func (l *Line) packs() []packs.Summary {
	if l.Lists == nil {
		return []packs.Summary{l.Payments, l.Parts}
	}
	return []packs.Summary{l.Payments, l.Parts, *l.Lists}
}

// Size is that of its packs, in bytes.
func (l *Line) Size() (size int64) {
	for _, sum := range l.packs() {
		size += sum.Size
	}
	return size
}

// packName is that of a pack's file.
func packName(partition int, sum string) string {
	return fmt.Sprintf("packs/p%02d/%s", partition, packs.FileName(sum))
}

func (l *Line) sealed() error {
	text, err := json.Marshal(l, json.Deterministic(true))
	l.text = string(text)
	return err
}

// ParseLine reads the text of a line.
func ParseLine(text string) (*Line, error) {
	l := &Line{text: text}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, fmt.Errorf("line of the manifest: %w", err)
	}
	switch {
	case l.Format == format1 && l.Lists == nil && l.Replaces == 0:
	case l.Format == format && l.Lists != nil && l.Replaces == 0:
	case l.Format == formatReplaces && l.Replaces > 0 && l.Replaces < l.Number:
	default:
		return nil, fmt.Errorf("line %d of the manifest has format %q, and this release knows %q to %q", l.Number, l.Format, format1, formatReplaces)
	}
	l.rank = l.Number
	return l, nil
}

// stored is a line as Redis has it: with the checksum of what would be at a key of its own.
func stored(archive string, l *Line) string {
	return record.EnvelopedJSON(lineKey(archive, l.Number), l.text)
}

func lineKey(archive string, number int64) string {
	return archive + ":" + strconv.FormatInt(number, 10)
}

// manifest is what Redis has of a partition, as it was read.
type manifest struct {
	lines []*Line // in the order of their numbers
	force []*Line // those that none stands in for, the newest last
	done  int64
	read  time.Time
}

func (m *manifest) last() int64 { return int64(len(m.lines)) }

// digest is that of the last line, which the next one names; empty without any.
func (m *manifest) digest() string {
	if len(m.lines) == 0 {
		return ""
	}
	return m.lines[len(m.lines)-1].digest()
}

// inForce are lines that none stands in for: each at the place of the first one that it
// replaces, in whose stead it is.
func inForce(lines []*Line) (force []*Line) {
	for _, l := range lines {
		at := -1
		if l.Replaces != 0 {
			at = slices.IndexFunc(force, func(is *Line) bool { return is.Number == l.Replaces })
		}
		if at < 0 {
			force = append(force, l)
			continue
		}
		if rank := force[at].rank; l.rank != rank { // others read a line that has it
			l.rank = rank
		}
		force[at] = l
	}
	return force
}

// replaced reports whether another line stands in for one.
func (m *manifest) replaced(l *Line) bool {
	return !slices.ContainsFunc(m.force, func(is *Line) bool { return is.Number == l.Number })
}

// mayHave are the lines whose packs may have the payment that an identifier belongs to, the
// newest first.
func (m *manifest) mayHave(id string) iter.Seq[*Line] {
	return func(yield func(*Line) bool) {
		made, is := tollgate.IDTime(id)
		at := tollgate.At(made)
		for _, l := range slices.Backward(m.force) {
			if is && at >= l.From && at <= l.Until && !yield(l) {
				return
			}
		}
	}
}

// staleAfter is for how long a manifest is used that was read: a payment is in a later pack
// only days after it was put back from an earlier one.
const staleAfter = time.Minute

// manifest is that of a partition: as it is known, or, if that is old or fresh is asked for,
// with what has come since.
func (s *Store) manifest(ctx context.Context, partition int, fresh bool) (*manifest, error) {
	s.lock.Lock()
	known := s.known[partition]
	s.lock.Unlock()
	if known != nil && !fresh && s.db.Clock().Sub(known.read).Abs() < staleAfter {
		return known, nil
	}
	if known == nil {
		known = &manifest{}
	}
	next, err := s.readManifest(ctx, partition, known)
	if err != nil {
		return nil, err
	}
	s.lock.Lock()
	s.known[partition] = next
	s.lock.Unlock()
	return next, nil
}

// readManifest reads what is new since a manifest was read; where Redis has others, all.
func (s *Store) readManifest(ctx context.Context, partition int, known *manifest) (*manifest, error) {
	next := &manifest{lines: known.lines, read: s.db.Clock()}
	key := rediskv.ArchiveKey(partition)
	var head *redis.SliceCmd
	var fields *redis.IntCmd
	if err := s.db.Timed(ctx, "archive_manifest", func(ctx context.Context) error {
		return s.db.AtOnce(ctx, func(pipe redis.Pipeliner) {
			head, fields = pipe.HMGet(ctx, key, "n", "done", strconv.FormatInt(known.last(), 10)), pipe.HLen(ctx, key)
		})
	}); err != nil {
		return nil, err
	}
	f := record.FieldsIn(head.Val(), "n", "done", "line")
	n := f.Int("n")
	next.done = f.Int("done")
	if heads := int64(2); fields.Val() != n+heads && fields.Val() != 0 {
		return nil, unavailable(fmt.Errorf("the manifest of partition %d says that it has %q lines, and has %d", partition, f["n"], fields.Val()-heads))
	}
	if known.last() > n || known.last() > 0 && f["line"] != stored(key, known.lines[known.last()-1]) {
		next.lines = nil // it is that of another history
	}
	const together = 100
	for first := next.last() + 1; first <= n; first = next.last() + 1 {
		var names []string
		for i := first; i <= min(n, first+together-1); i++ {
			names = append(names, strconv.FormatInt(i, 10))
		}
		var reply *redis.SliceCmd
		if err := s.db.Timed(ctx, "archive_manifest", func(ctx context.Context) error {
			reply = s.db.Redis.HMGet(ctx, key, names...)
			return reply.Err()
		}); err != nil {
			return nil, err
		}
		lines := next.lines[:len(next.lines):len(next.lines)] // others read the ones before
		for i, v := range reply.Val() {
			text, _ := v.(string)
			text, err := record.Opened(lineKey(key, first+int64(i)), text)
			var l *Line
			if err == nil {
				l, err = ParseLine(text)
			}
			if err == nil && (l.Number != first+int64(i) || l.Partition != partition) {
				err = fmt.Errorf("line %s of the manifest of partition %d is number %d of %d", names[i], partition, l.Number, l.Partition)
			}
			if err != nil {
				return nil, unavailable(err)
			}
			lines = append(lines, l)
		}
		next.lines = lines
	}
	next.force = inForce(next.lines)
	return next, nil
}

// Manifest are the lines of a partition's archive that are in force, and the last one whose payments are
// removed from Redis.
func (s *Store) Manifest(ctx context.Context, partition int) (lines []*Line, done int64, err error) {
	m, err := s.manifest(ctx, partition, true)
	if err != nil {
		return nil, 0, err
	}
	return m.force, m.done, nil
}

// unavailable is the answer while something of the archive cannot be read.
func unavailable(err error) error {
	return &tollgate.Error{Code: tollgate.CodeArchiveUnavailable, Message: "The archive cannot be read.", Cause: err}
}
