package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// unfinished is after how long a file is removed that is still being put on the shelf: whoever
// did so has died.
const unfinished = 24 * time.Hour

// together is how many payments are read, or removed, by one script, which others wait for:
// some 0.3 ms.
const together = 5

type (
	readPaymentsKeys struct{ Archive string }
	readPaymentsArgs struct{ Count int }
	addPackKeys      struct{ Archive, Fence string }
	addPackArgs      struct {
		Number        int64
		Line          string
		Erased, Raise string
	}
)

var (
	scriptReadPayments = script.NewRead[readPaymentsKeys, readPaymentsArgs](lua, "read_payments")
	scriptAddPack      = script.New[addPackKeys, addPackArgs](lua, "add_pack")
)

// Archive makes one turn in a partition: payments that have been at an end since before
// some time ago are moved into a pack, as many as it can have. It returns how many were
// removed from Redis; a turn that was begun by a worker that has died is ended first.
func (s *Store) Archive(ctx context.Context, partition int, after time.Duration) (moved int, err error) {
	orgs, err := s.db.OrganizationsIn(ctx, partition)
	if err != nil || len(orgs) == 0 {
		return 0, err
	}
	now, err := s.db.HistoryFor(ctx, orgs[0])
	if err != nil || !now.Open {
		return 0, err
	}
	ctx = history.Within(ctx, now.ID)
	m, err := s.manifest(ctx, partition, true)
	if err != nil {
		return 0, err
	}
	if m.done < m.last() {
		if moved, err = s.removeAgain(ctx, m.lines[m.done]); err == nil {
			m, err = s.manifest(ctx, partition, true)
		}
		if err != nil || m.done < m.last() { // another worker was faster
			return moved, err
		}
	}
	if n := len(m.lines); n > 0 { // a volume that is not mounted is an empty directory
		for _, on := range s.Shelves {
			if _, err := on.Text(ctx, m.lines[n-1].Name()); err != nil {
				return moved, unavailable(fmt.Errorf("the archive is not there: %w", err))
			}
		}
	}
	s.lock.Lock()
	caught := s.caught[partition]
	s.lock.Unlock()
	if !caught { // once, so that what was lost with Redis is read again soon; then before each pack
		n, err := s.catchUp(ctx, partition, &m)
		if moved += n; err != nil || m.done < m.last() {
			return moved, err
		}
		s.lock.Lock()
		s.caught[partition] = true
		s.lock.Unlock()
	}
	n, err := s.makePack(ctx, partition, orgs, m, after, now.ID)
	return moved + n, err
}

// makePack chooses payments, and moves them into a pack that is the next of a manifest.
func (s *Store) makePack(ctx context.Context, partition int, orgs []string, m *manifest, after time.Duration, in string) (moved int, err error) {
	before := s.before(after)
	fence, erased, err := s.fence(ctx, partition)
	if err != nil {
		return 0, err
	}
	c, err := s.choose(ctx, orgs, before)
	if err != nil || !c.due(before, after) {
		return 0, err
	}
	last := m.last()
	if n, err := s.catchUp(ctx, partition, &m); err != nil || m.last() != last { // what was chosen may be in there
		return n, err
	}
	p, err := s.seal(ctx, partition, m.last(), c, before)
	if err != nil {
		return 0, conflict(err)
	}
	defer p.discard()
	if len(p.removals) == 0 {
		return 0, conflict(s.add(ctx, partition, m.last(), "", c.through, nil, adding{fence: fence}))
	}
	l, err := s.shelve(ctx, p, m, in, erased)
	if err != nil {
		return 0, err
	}
	if err := s.add(ctx, partition, l.Number, stored(rediskv.ArchiveKey(partition), l), c.through, p.lists.spans, adding{fence: fence}); err != nil {
		if errors.Is(err, rediskv.ErrConflict) {
			if err := s.outdated(ctx, p, l); err != nil {
				return 0, err
			}
		}
		return 0, conflict(err)
	}
	s.step(partition, "added to the manifest")
	return s.removeAll(ctx, l, p.lists, p.removals)
}

// conflict is no error: another worker was faster.
func conflict(err error) error {
	if errors.Is(err, rediskv.ErrConflict) || errors.Is(err, rediskv.ErrStale) {
		return nil
	}
	return err
}

// adding says under which conditions a line is added.
type adding struct {
	fence  string // as it was before the payments were read
	erases bool   // the line has some without what others may have read of them
}

// add adds a line to the manifest, with the spans of the organizations whose lists it has;
// without one it moves along how far payments have been looked at.
func (s *Store) add(ctx context.Context, partition int, number int64, line string, through map[string]int64, spans map[string]*ledger.Span, how adding) error {
	args := addPackArgs{Number: number, Line: line, Erased: how.fence}
	if how.erases {
		args.Raise = "1"
	}
	inv := scriptAddPack.With(addPackKeys{rediskv.ArchiveKey(partition), FenceKey(partition)}, args)
	orgs := slices.AppendSeq(slices.Collect(maps.Keys(through)), maps.Keys(spans))
	slices.Sort(orgs)
	for _, org := range slices.Compact(orgs) {
		place, span := "", ""
		if at, is := through[org]; is {
			place = strconv.FormatInt(at, 10)
		}
		if of, is := spans[org]; of != nil {
			span = of.SpanText()
		} else if is {
			span = ledger.Unused
		}
		inv.Keys, inv.Args = append(inv.Keys, ledger.ArchivedKey(s.db.Space(org))), append(inv.Args, place, span)
	}
	_, _, err := s.db.Run(ctx, inv)
	return err
}

// sealing is a pack that is being made, in three files.
type sealing struct {
	partition   int
	log         *slog.Logger
	files       [3]*os.File // of payments, parts and lists
	payments    *packs.Writer
	parts       []part
	lists       *indexed
	sums        [][sha256.Size]byte // of each row
	removals    []removal           // what Redis has of each
	from, until tollgate.Instant
	summaries   [3]packs.Summary // as the files
}

func (p *sealing) discard() {
	for _, f := range p.files {
		if f != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
}

// seal writes the payments that are at an end to a pack. Those that are not are noted, so
// that they keep no others waiting.
func (s *Store) seal(ctx context.Context, partition int, last int64, c *choice, before tollgate.Instant) (p *sealing, err error) {
	p = &sealing{partition: partition, log: s.db.Log, lists: newIndexed()}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	for i := range p.files {
		if p.files[i], err = os.CreateTemp(s.Scratch, "tollgate-pack-*"); err != nil {
			return p, fmt.Errorf("archive: %w", err)
		}
		_ = os.Remove(p.files[i].Name()) // where that can be done: it goes with this process, however that ends
	}
	p.payments = packs.NewWriter(p.files[0], kindPayments, partition)
	for some := range slices.Chunk(c.payments, together) {
		found, err := s.read(ctx, partition, last, some)
		if err != nil {
			return p, err
		}
		var stay []chosen
		for i, one := range some {
			added, err := p.add(s.db.Space(one.org), one, found[i], before)
			if err != nil {
				return p, err
			}
			if !added {
				stay = append(stay, one)
			}
		}
		if err := s.stay(ctx, stay, before); err != nil {
			return p, err
		}
	}
	s.step(partition, "written")
	return p, p.close()
}

// whole is what Redis has of a payment, and its digest.
type whole struct {
	ledger.Records
	digest string
}

// read reads payments, each at one moment, while a line is the last of the manifest.
func (s *Store) read(ctx context.Context, partition int, last int64, some []chosen) ([]whole, error) {
	inv := scriptReadPayments.With(readPaymentsKeys{rediskv.ArchiveKey(partition)}, readPaymentsArgs{len(some)})
	for _, one := range some {
		k := s.db.Space(one.org)
		inv.Keys = append(inv.Keys, k.Object(one.id), k.Object(tollgate.TicketOf(one.id)), k.Parts(one.id))
	}
	rest, err := s.politely(ctx, inv)
	if err != nil {
		return nil, err
	}
	if rest[0] != strconv.FormatInt(last, 10) {
		return nil, rediskv.ErrConflict
	}
	found := make([]whole, len(some))
	for i, one := range rest[1:] {
		fields, _ := one.([]any)
		found[i].ID = some[i].id
		found[i].Payment, found[i].Parts = record.FieldsOf(fields[0]), record.FieldsOf(fields[2])
		found[i].Ticket, _ = fields[1].(string)
		found[i].digest, _ = fields[3].(string)
	}
	return found, nil
}

// add adds a payment, unless it is not at an end or cannot be read.
func (p *sealing) add(k rediskv.Space, one chosen, r whole, before tollgate.Instant) (added bool, err error) {
	if len(r.Payment) == 0 {
		return true, nil // it is in a pack already
	}
	a, err := payments.ArchivedOf(k, one.id, &r.Records)
	if err != nil || !a.Finished(before) {
		return false, nil // damage is for a check to find
	}
	row, err := a.Row()
	if err == nil {
		err = same(a, row)
	}
	if err != nil { // others do not wait for it
		p.log.Error("a payment cannot be archived", "organization", k.Org, "payment", one.id, "error", err)
		return false, nil
	}
	if err := p.payments.Add(one.id, row); err != nil {
		return false, err
	}
	of, _, _ := tollgate.NumberIn(one.id)
	_, text, _ := strings.Cut(one.id, "_")
	p.parts = append(p.parts, part{of, text[:len(text)-len(of)-len(tollgate.FirstNumber)]})
	p.sums = append(p.sums, sha256.Sum256(row))
	from, to := p.lists.add(k, a)
	p.removals = append(p.removals, removal{one, r.digest, a.Ticket.ErasedAt != 0, from, to})
	p.extend(a)
	return true, nil
}

// same compares a payment with what its row is read as.
func same(a *payments.Archived, row []byte) error {
	b, err := payments.ReadArchived(row)
	if err == nil && !reflect.DeepEqual(a, b) {
		err = fmt.Errorf("archive: %s is not read as it was written", a.ID)
	}
	return err
}

// extend has the times of a pack include all that belongs to a payment.
func (p *sealing) extend(a *payments.Archived) {
	note := func(id string) {
		made, _ := tollgate.IDTime(id)
		if at := tollgate.At(made); p.from == 0 {
			p.from, p.until = at, at
		} else {
			p.from, p.until = min(p.from, at), max(p.until, at)
		}
	}
	note(a.ID)
	for i := range a.Transactions {
		note(a.Transactions[i].Transaction.ID)
	}
	for i := range a.Captures {
		note(a.Captures[i].ID)
	}
	for i := range a.Refunds {
		note(a.Refunds[i].ID)
	}
}

// close ends all files.
func (p *sealing) close() (err error) {
	if len(p.removals) == 0 {
		return nil
	}
	if p.summaries[0], err = p.payments.Close(); err != nil {
		return err
	}
	slices.SortFunc(p.parts, func(a, b part) int { return strings.Compare(a.ID, b.ID) })
	parts := packs.NewWriter(p.files[1], kindParts, p.partition)
	for i := range p.parts {
		row, err := json.Marshal(&p.parts[i])
		if err != nil {
			return err
		}
		if err := parts.Add(p.parts[i].ID, row); err != nil {
			return err
		}
	}
	if p.summaries[1], err = parts.Close(); err != nil {
		return err
	}
	p.summaries[2], err = p.lists.write(p.files[2], p.partition)
	return err
}

// stay notes payments that are not at an end: they are looked at again with the next pack.
func (s *Store) stay(ctx context.Context, some []chosen, before tollgate.Instant) error {
	if len(some) == 0 {
		return nil
	}
	return s.db.Timed(ctx, "archive_stay", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		for _, one := range some {
			pipe.ZAddNX(ctx, returnedKey(s.db.Space(one.org)), redis.Z{Score: float64(before - 1), Member: one.id})
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}

// shelve puts the packs on the shelf, reads them back from there, and then puts their line
// there.
func (s *Store) shelve(ctx context.Context, p *sealing, m *manifest, in string, erased int64) (*Line, error) {
	for _, on := range s.Shelves {
		for i, sum := range p.summaries {
			if err := s.shelvePack(ctx, on, p, i, sum); err != nil {
				return nil, fmt.Errorf("archive: %w", err)
			}
		}
	}
	l := &Line{
		Format: format, Number: m.last() + 1, Partition: p.partition, Payments: p.summaries[0], Parts: p.summaries[1], Lists: &p.summaries[2],
		From: p.from, Until: p.until, SealedAt: s.db.Now(), HistoryID: in, Erased: erased,
	}
	if n := len(m.lines); n > 0 {
		l.Previous = m.lines[n-1].digest()
	}
	if err := l.sealed(); err != nil {
		return nil, err
	}
	for _, on := range s.Shelves {
		if err := on.Put(ctx, l.Name(), int64(len(l.text)), strings.NewReader(l.text)); err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
		if s.db.Wall != nil { // by which files have their times
			if _, err := on.Sweep(ctx, s.db.Wall().Add(-unfinished)); err != nil {
				return nil, fmt.Errorf("archive: %w", err)
			}
		}
		s.step(p.partition, "put "+l.Name())
	}
	return l, nil
}

// shelvePack puts one of a pack's files on a shelf, and reads it back from there.
func (s *Store) shelvePack(ctx context.Context, on shelf.Shelf, p *sealing, i int, sum packs.Summary) error {
	name := packName(p.partition, sum.SHA256)
	if _, err := p.files[i].Seek(0, 0); err != nil {
		return err
	}
	if err := on.Put(ctx, name, sum.Size, p.files[i]); err != nil {
		return err
	}
	s.step(p.partition, "put "+name)
	back := shelves.IsPack
	if i == 0 {
		back = func(ctx context.Context, on shelf.Shelf, name string, sum packs.Summary) error {
			return shelves.ReadBack(ctx, on, name, sum, p.sums)
		}
	}
	if err := back(ctx, on, name, sum); err != nil {
		return fmt.Errorf("reading %s back: %w", name, err)
	}
	s.step(p.partition, "read "+name+" back")
	return nil
}
