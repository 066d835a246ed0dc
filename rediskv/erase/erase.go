// Package erase takes out of what is stored of payments whom they were for: payee, reference,
// description and metadata, in Redis and in the archive.
//
// A payment is erased in steps, each of which can be repeated: it is noted, with an entry in the
// audit record; its records in Redis are written anew, all at once; then its events, the answers
// that are remembered, and the lists that it is found by; then each pack that has it. At the
// end the note goes. A run that died has left notes: the next one ends what it began.
package erase

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/history"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/store"
)

//go:embed lua/*.lua
var lua embed.FS

// Store erases payments of a Redis.
type Store struct {
	*store.Store
	archive *archive.Store
	logs    *logs.Store
	// Step is told of each step that is done; nil: nobody is.
	Step func(step string)
	// Left is told of files of the archive that have something of what is erased, and must
	// stay: lines name them that Redis does not have. nil: nobody is.
	Left func(file string)
}

// New returns it. Where there is no archive, both parts of it are nil: of payments, and of logs.
func New(s *store.Store, a *archive.Store, l *logs.Store) *Store {
	return &Store{Store: s, archive: a, logs: l}
}

func (s *Store) step(step string) {
	if s.Step != nil {
		s.Step(step)
	}
}

// notesKey is a hash of an organization: the payments that are being erased, and since when,
// in Unix milliseconds. It is there only while a run is at it, or after one that died.
func notesKey(k rediskv.Space) string { return k.Object("erasing") }

// Found is a payment that may be erased.
type Found struct {
	Organization string                 `json:"organization_id"`
	Payment      string                 `json:"payment_id"`
	Status       tollgate.PaymentStatus `json:"status"`
	// Open says that it cannot be erased yet: it is not at an end, and its captures are priced
	// by its payee.
	Open bool `json:"open"`
	// Begun says that a run that died has begun to erase it.
	Begun bool `json:"begun"`
	// Erased says that it is erased already.
	Erased bool `json:"erased"`
}

func foundOf(org string, p *tollgate.Payment) Found {
	return Found{Organization: org, Payment: p.ID, Status: p.Status, Open: !p.Status.Terminal(), Erased: p.ErasedAt != 0}
}

// Organizations are those of all partitions.
func (s *Store) Organizations(ctx context.Context) (all []string, err error) {
	for p := range s.Partitions() {
		orgs, err := s.OrganizationsIn(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, orgs...)
	}
	slices.Sort(all)
	return all, nil
}

// Begun are payments of an organization that a run which died has begun to erase.
func (s *Store) Begun(ctx context.Context, org string) (list []Found, err error) {
	var notes map[string]string
	if err := s.Timed(ctx, "erasing", func(ctx context.Context) (err error) {
		notes, err = s.Redis.HGetAll(ctx, notesKey(s.Space(org))).Result()
		return err
	}); err != nil {
		return nil, err
	}
	for id := range notes {
		list = append(list, Found{Organization: org, Payment: id, Begun: true})
	}
	slices.SortFunc(list, func(a, b Found) int { return strings.Compare(a.Payment, b.Payment) })
	return list, nil
}

// To are the payments of an organization to a payee.
func (s *Store) To(ctx context.Context, org, payee string) (list []Found, err error) {
	q := ledger.TransactionQuery{Payee: payee, Limit: 100}
	for {
		rows, next, more, err := s.Payments(ctx, rediskv.Caller{Organization: org}, q)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Damaged {
				return nil, tollgate.Damage("payment", rows[i].ID, errors.New("a payment that cannot be read may be to the payee"))
			}
			list = append(list, foundOf(org, &rows[i]))
		}
		if q.After = next; !more {
			return list, nil
		}
	}
}

// Payment finds a payment of an organization; false where it has none of this id.
func (s *Store) Payment(ctx context.Context, org, id string) (Found, bool, error) {
	p, _, err := s.Store.Payment(ctx, rediskv.Caller{Organization: org}, id)
	if e, is := errors.AsType[*tollgate.Error](err); is && e.Code == tollgate.CodeNotFound {
		return Found{}, false, nil
	}
	if err != nil {
		return Found{}, false, err
	}
	return foundOf(org, p), true, nil
}

// Erase erases payments of an organization that are at an end, and those that a run which died
// has begun to. It can be run again.
func (s *Store) Erase(ctx context.Context, org string, ids []string) error {
	now, err := s.HistoryFor(ctx, org)
	if err == nil && !now.Open {
		err = fmt.Errorf("%s takes no writes since data was lost; 'tollgate history accept' goes on", org)
	}
	if err != nil {
		return err
	}
	if s.archive == nil {
		var packs int64
		if err := s.Timed(ctx, "archive_packs", func(ctx context.Context) (err error) {
			packs, err = s.Redis.Exists(ctx, rediskv.ArchiveKey(s.Partition(org)), eventlog.LogsKey(s.Partition(org))).Result()
			return err
		}); err != nil {
			return err
		}
		if packs > 0 {
			return &tollgate.Error{Code: tollgate.CodeArchiveUnavailable, Message: "There is an archive, which may have it: set TOLLGATE_ARCHIVE_URL."}
		}
	}
	e := &erasing{Store: s, k: s.Space(org), caller: rediskv.Caller{Organization: org}, at: map[string]tollgate.Instant{}, of: map[string]bool{}}
	return e.run(history.Within(ctx, now.ID), ids)
}

// erasing is one run for an organization.
type erasing struct {
	*Store
	k      rediskv.Space
	caller rediskv.Caller
	at     map[string]tollgate.Instant // by payment, since when it is being erased
	of     map[string]bool             // the same by what all identifiers of a payment share, or by the payment itself

	was    []ledger.Placed // transactions as they were
	events []string        // of all payments
	again  bool            // a run that died may have left lists as they were
}

func (e *erasing) run(ctx context.Context, ids []string) error {
	if e.archive != nil {
		if err := e.archive.CatchUp(ctx, e.k.Partition); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := e.note(ctx, id); err != nil {
			return err
		}
	}
	if err := e.notes(ctx, ids); err != nil {
		return err
	}
	e.step("noted")
	for id := range e.at {
		if err := e.payment(ctx, id); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	e.step("records")
	if err := e.rewriteEvents(ctx); err != nil {
		return err
	}
	e.step("events")
	if err := e.answers(ctx); err != nil {
		return err
	}
	e.step("answers")
	if err := e.lists(ctx); err != nil {
		return err
	}
	e.step("lists")
	if e.archive != nil {
		left, err := e.archive.Erase(ctx, e.k, e.at)
		if e.Left != nil {
			for _, file := range left {
				e.Left(file)
			}
		}
		if err != nil {
			return err
		}
	}
	e.step("packs")
	if e.logs != nil {
		slices.Sort(e.events)
		if err := e.logs.Erase(ctx, e.k, eventlog.LogEvents, slices.Compact(e.events), e.event); err != nil {
			return err
		}
	}
	e.step("packs of events")
	return e.Timed(ctx, "erased", func(ctx context.Context) error {
		all := make([]string, 0, len(e.at))
		for id := range e.at {
			all = append(all, id)
		}
		if len(all) == 0 {
			return nil
		}
		return e.Redis.HDel(ctx, notesKey(e.k), all...).Err()
	})
}

// note notes a payment, with its entry in the audit record, unless it is noted.
func (e *erasing) note(ctx context.Context, id string) error {
	c := e.NewCommit(e.caller, nil)
	c.Still("", "HGET", notesKey(e.k), id)
	c.Do("HSET", notesKey(e.k), id, strconv.FormatInt(int64(e.Now()), 10))
	if err := c.Audit("payment.erase", "", "payment", id); err != nil {
		return err
	}
	if _, err := c.Run(ctx); err != nil && !errors.Is(err, rediskv.ErrConflict) {
		return err
	}
	return nil
}

// notes reads what is noted, by this run or by one that died.
func (e *erasing) notes(ctx context.Context, ids []string) error {
	var notes map[string]string
	if err := e.Timed(ctx, "erasing", func(ctx context.Context) (err error) {
		notes, err = e.Redis.HGetAll(ctx, notesKey(e.k)).Result()
		return err
	}); err != nil {
		return err
	}
	for id, text := range notes {
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !strings.HasPrefix(id, tollgate.PrefixPayment) {
			return fmt.Errorf("%s says of %q that it is erased since %q", notesKey(e.k), id, text)
		}
		e.at[id] = tollgate.Instant(at)
		e.again = e.again || !slices.Contains(ids, id)
		e.of[id] = true
	}
	return nil
}

// lists takes what was found by payee and reference out of the lists of searches.
func (e *erasing) lists(ctx context.Context) error {
	if e.again {
		return e.Store.Unlist(ctx, e.k)
	}
	return e.Store.Forget(ctx, e.k, e.was)
}

// masters calls f with some keys that match a pattern, of all servers.
func (e *erasing) masters(ctx context.Context, pattern string, f func(ctx context.Context, node redis.Cmdable, keys []string) error) error {
	return e.Masters(ctx, func(ctx context.Context, _ string, node rediskv.Client) error {
		for cursor := uint64(0); ; {
			var keys []string
			if err := e.Timed(ctx, "erase_answers", func(ctx context.Context) (err error) {
				keys, cursor, err = node.Scan(ctx, cursor, pattern, 1000).Result()
				return err
			}); err != nil {
				return err
			}
			if len(keys) > 0 {
				if err := f(ctx, node, keys); err != nil {
					return err
				}
			}
			if cursor == 0 {
				return nil
			}
		}
	})
}
