package checks

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

const (
	// longestWindow is how long ago a payment can have been made whose counter is
	// still kept: a month, and as long as a counter outlives its window.
	longestWindow = 33 * 24 * time.Hour
	// mostCounters is how many counters are added up in memory at a time. Of more, a
	// share is, and then the next one.
	mostCounters = 50_000
	// eventsAtOnce are as much work as one payment, where a walk pauses; of mostEvents
	// since the payments were read the counters are left for the next walk.
	eventsAtOnce = 10
	mostEvents   = 500_000
)

// counters adds up what payments take up of each budget and frequency, and compares
// it with the counters. It walks from the newest payment to the oldest that can still
// count. A payment that changes meanwhile is brought up to date by the events of the
// time that the walk took, so that a busy account is compared as exactly as one at rest.
func (w *walk) counters(ctx context.Context) error {
	for share, of := uint32(0), uint32(1); share < of; share++ {
		sums := &counterSums{w: w, share: share, of: of, list: map[string]*consistency.CounterRecords{}, restores: map[tollgate.PerimeterRef]*tollgate.Perimeter{}, unsure: map[string]bool{}}
		if err := sums.gather(ctx); err != nil {
			return err
		}
		of = sums.of
		if err := sums.catchUp(ctx); err != nil {
			return err
		}
		sums.compare()
	}
	return nil
}

// counterSums are what the payments that were read take up.
type counterSums struct {
	w        *walk
	share    uint32 // of the counters are those that are added up,
	of       uint32 // one in so many
	list     map[string]*consistency.CounterRecords
	restores map[tollgate.PerimeterRef]*tollgate.Perimeter // nil: it cannot be read
	unsure   map[string]bool                               // counters of payments that cannot be read
	pages    []counterPage
	top      int64 // the highest position when the walk began,
	since    int64 // and an event before that
}

// counterPage is up to which event the payments at a position and above were read,
// but for those of the pages before.
type counterPage struct{ position, sequence int64 }

func (s *counterSums) mine(counter string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(counter))
	return h.Sum32()%s.of == s.share
}

// gather reads payments back to the oldest that can still count.
func (s *counterSums) gather(ctx context.Context) error {
	w, oldest := s.w, s.w.store.db.Now().Add(-longestWindow)
	if err := w.began(ctx); err != nil {
		return err
	}
	s.since = w.last
	for below := int64(ledger.Highest); ; {
		members, err := ledger.InRedis(ctx, w.DB, w.K, tollgate.PaymentStatuses, true, 0, below, page)
		if err != nil || len(members) == 0 {
			return err
		}
		last := members[len(members)-1].Position
		s.top, below = max(s.top, members[0].Position), last-1
		read, sequence, old, err := s.read(ctx, members, oldest)
		if err != nil {
			return err
		}
		s.pages = append(s.pages, counterPage{last, sequence})
		for _, p := range read {
			if err := s.add(ctx, p); err != nil {
				return err
			}
		}
		if err := w.passed(ctx, "counted payments", len(members), ""); err != nil || old {
			return err
		}
	}
}

// read reads the payments of a page that a counter has counted, at one moment, and
// which was the last event then. old: all of the page was made before a moment.
func (s *counterSums) read(ctx context.Context, members []ledger.Indexed, oldest tollgate.Instant) (read []*tollgate.Payment, sequence int64, old bool, err error) {
	w := s.w
	made, places := make([]*redis.SliceCmd, len(members)), make([]record.Place, len(members))
	counted := make([]*redis.SliceCmd, len(members))
	ids := make([]string, len(members))
	if err := w.Pipelined(ctx, "counted", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, of := range members {
			places[i] = of.Place(w.K)
			ids[i] = tollgate.PrefixPayment + rediskv.Unprefixed(of.ID)
			made[i] = pipe.HMGet(ctx, places[i].Key, places[i].Names([]string{"crt"})...)
			counted[i] = pipe.HMGet(ctx, w.K.Object(ids[i]), "use0")
		}
	}); err != nil {
		return nil, 0, false, err
	}
	hashes := map[string]*redis.MapStringStringCmd{}
	var last *redis.StringCmd
	old = true
	if err := w.AtOnce(ctx, "counted", func(ctx context.Context, pipe redis.Pipeliner) {
		last = pipe.HGet(ctx, w.K.Sequences(), "event")
		for i, id := range ids {
			at, err := strconv.ParseInt(cmp.Or(places[i].Read(made[i].Val(), []string{"crt"})["crt"], "0"), 10, 64) // 0 of one in the archive
			old = old && err == nil && tollgate.Instant(at) < oldest
			if record.FieldsIn(counted[i].Val(), "use0")["use0"] != "" {
				hashes[id] = pipe.HGetAll(ctx, w.K.Object(id))
			}
		}
	}); err != nil {
		return nil, 0, false, err
	}
	if sequence, err = strconv.ParseInt(last.Val(), 10, 64); err != nil {
		sequence = math.MaxInt64 // that is found with the log; nothing is later
	}
	for id, h := range hashes {
		p, err := payments.PaymentOf(id, h.Val())
		if err == nil {
			read = append(read, p)
			continue
		}
		for _, name := range payments.CountersOf(h.Val()) {
			s.unsure[name] = true
		}
	}
	return read, sequence, old, nil
}

// add counts a payment.
func (s *counterSums) add(ctx context.Context, p *tollgate.Payment) error {
	if len(p.Counters) == 0 {
		return nil
	}
	perimeter, err := s.perimeter(ctx, p.Perimeter)
	if err != nil {
		return err
	}
	for _, counter := range p.Counters {
		one := s.counter(counter)
		if one == nil {
			continue
		}
		s.unsure[counter] = s.unsure[counter] || perimeter == nil && p.Refunds > 0
		one.Consumed += consistency.Consumed(p, counter, perimeter != nil && perimeter.RefundsRestoreBudget())
		if perimeter != nil {
			one.Until = max(one.Until, consistency.CountedUntil(perimeter, p, counter))
		}
	}
	return nil
}

// counter is one that is added up, nil of one that is not.
func (s *counterSums) counter(name string) *consistency.CounterRecords {
	if !s.mine(name) {
		return nil
	}
	if s.list[name] == nil {
		s.list[name] = &consistency.CounterRecords{Name: name}
	}
	for len(s.list) > mostCounters {
		s.of *= 2
		maps.DeleteFunc(s.list, func(name string, _ *consistency.CounterRecords) bool { return !s.mine(name) })
	}
	return s.list[name]
}

// perimeter is the version that decided about a payment.
func (s *counterSums) perimeter(ctx context.Context, d tollgate.PerimeterDecision) (*tollgate.Perimeter, error) {
	ref := tollgate.PerimeterRef{ID: d.ID, Version: d.Version}
	if known, ok := s.restores[ref]; ok {
		return known, nil
	}
	found, err := s.w.store.accounts.PerimeterDocuments(ctx, s.w.K.Org, []tollgate.PerimeterRef{ref})
	if err != nil {
		return nil, err
	}
	var p *tollgate.Perimeter
	if found[0].Damage == nil && found[0].PerimeterDocument != nil {
		p, _ = found[0].Compile()
	}
	s.restores[ref] = p
	return p, nil
}

// catchUp reads the counters, some at a time, and brings the sums of those that are
// left up to that moment by the events since each payment was read.
func (s *counterSums) catchUp(ctx context.Context) error {
	w := s.w
	names := slices.Sorted(maps.Keys(s.list))
	if len(names) == 0 {
		return nil
	}
	since, left := s.since, maps.Clone(s.list)
	for some := range slices.Chunk(names, 10*page) {
		values := make([]*redis.StringCmd, len(some))
		var last *redis.StringCmd
		if err := w.AtOnce(ctx, "counters", func(ctx context.Context, pipe redis.Pipeliner) {
			last = pipe.HGet(ctx, w.K.Sequences(), "event")
			for i, name := range some {
				values[i] = pipe.Get(ctx, w.K.Counter(name))
			}
		}); err != nil && !peer.IsReply(err) {
			return err
		}
		until, err := strconv.ParseInt(last.Val(), 10, 64)
		if err != nil {
			return nil
		}
		for i, name := range some {
			one := s.list[name]
			n, err := strconv.ParseInt(values[i].Val(), 10, 64)
			if one.There = values[i].Err() == nil; one.There && err != nil {
				s.unsure[name] = true
				w.report(plain([]consistency.Finding{consistency.Found(consistency.FindingDamaged, "counter", name, "it is no number")}))
				continue
			}
			one.Count = n
		}
		if until-since > mostEvents {
			w.Looked["counters left out"] += int64(len(left))
			for name := range left {
				s.unsure[name] = true
			}
			return nil
		}
		if err := s.events(ctx, since, until, left); err != nil {
			return err
		}
		since = until
		for _, name := range some {
			delete(left, name)
		}
		if err := w.passed(ctx, "counters", len(some), ""); err != nil {
			return err
		}
	}
	return nil
}

// events adds what the events of a time have changed to some counters.
func (s *counterSums) events(ctx context.Context, since, until int64, of map[string]*consistency.CounterRecords) error {
	w := s.w
	for to, reached := "+", false; until > since && !reached; {
		entries, err := streams.RevRange(ctx, w.store.db, w.K.Events(), to, "-", page)
		if err != nil {
			return err
		}
		for _, m := range entries {
			to = "(" + m.ID
			n, _ := eventlog.PlaceOf(m)
			if n <= since && n > 0 {
				reached = true
				break
			}
			if n > until {
				continue
			}
			if err := s.event(ctx, m, of); err != nil {
				return err
			}
		}
		if err := w.passed(ctx, "events of counters", len(entries)/eventsAtOnce+1, ""); err != nil {
			return err
		}
		reached = reached || len(entries) < page
	}
	return nil
}

// event adds what one event has changed, unless its payment was read later.
func (s *counterSums) event(ctx context.Context, m redis.XMessage, of map[string]*consistency.CounterRecords) error {
	var d tollgate.PaymentEventData
	e, err := eventlog.EventOf(s.w.K, m)
	if err != nil || !strings.HasPrefix(string(e.Type), "payment.") || json.Unmarshal(e.Data, &d) != nil {
		return nil
	}
	w := s.w
	var hash *redis.MapStringStringCmd
	var position, other *redis.StringCmd
	if err := w.Pipelined(ctx, "changed", func(ctx context.Context, pipe redis.Pipeliner) {
		hash = pipe.HGetAll(ctx, w.K.Object(d.PaymentID))
		apart, together := ledger.Indexed{ID: tollgate.AuthorizationOf(d.PaymentID)}, ledger.Indexed{ID: tollgate.AuthorizationOf(d.PaymentID), Shared: true}
		position, other = pipe.HGet(ctx, apart.Place(w.K).Key, "pos"), pipe.HGet(ctx, together.Place(w.K).Key, together.FieldPrefix()+"pos")
	}); err != nil {
		return err
	}
	p, err := payments.PaymentOf(d.PaymentID, hash.Val())
	at, failed := strconv.ParseInt(cmp.Or(position.Val(), other.Val()), 10, 64)
	if err != nil || failed != nil {
		return nil // that is found with the payment
	}
	if at <= s.top {
		n := sort.Search(len(s.pages), func(i int) bool { return s.pages[i].position <= at })
		if n == len(s.pages) || e.Sequence <= s.pages[n].sequence {
			return nil
		}
	}
	perimeter, err := s.perimeter(ctx, p.Perimeter)
	if err != nil {
		return err
	}
	first := consistency.LastPlace(e.Sequence-1) < at && at <= consistency.LastPlace(e.Sequence)
	for _, counter := range p.Counters {
		if one := of[counter]; one != nil {
			one.Consumed += consistency.ConsumedBy(p, &d, first, counter, perimeter != nil && perimeter.RefundsRestoreBudget())
		}
	}
	return nil
}

// compare reports the counters that are not what their payments take up.
func (s *counterSums) compare() {
	w, now := s.w, s.w.store.db.Now()
	for _, name := range slices.Sorted(maps.Keys(s.list)) {
		one := *s.list[name]
		if s.unsure[name] {
			continue
		}
		for _, f := range one.Check(now) {
			w.report([]Finding{w.counter(f, one)})
		}
	}
}

// counter is a counter and what repairs it.
func (w *walk) counter(found consistency.Finding, r consistency.CounterRecords) Finding {
	key, right := w.K.Counter(r.Name), strconv.FormatInt(r.Consumed, 10)
	if r.There {
		is := strconv.FormatInt(r.Count, 10)
		return repairable(found, func(c *rediskv.Commit) {
			c.Still(is, "GET", key)
			c.Do("INCRBY", key, r.Consumed-r.Count)
		}, "set %s from %s to %s", key, is, right)
	}
	lifetime := int64(r.Until-w.store.db.Now()) + payments.CounterKept.Milliseconds()
	return repairable(found, func(c *rediskv.Commit) {
		c.Still("", "GET", key)
		c.Do("SET", key, right, "PX", lifetime)
	}, "set %s to %s", key, right)
}
