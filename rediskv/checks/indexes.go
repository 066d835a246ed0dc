package checks

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// index is an index of transactions, and which belong there: why not, or nothing.
type index struct {
	key  string
	what string
	not  func(rediskv.Fields) string
}

// indexFields are what is read of a transaction to know where it belongs.
var indexFields = []string{"ty", "st", "ma", "pos", "pay", "cur", "av"}

// through walks through an index from a place on: each entry has its transaction,
// which belongs there and has the same place. each is given what was read.
func (w *walk) through(ctx context.Context, x index, what, from, prefix string, each func(ctx context.Context, entries []entry, found []rediskv.Fields) error) error {
	at, err := strconv.ParseFloat(from, 64)
	if err != nil {
		at = -1
	}
	for {
		entries, err := look.Listed(ctx, w.Reader, w.store.ledger, x.key, at, consistency.LastPlace(w.last))
		if err != nil || len(entries) == 0 {
			return err
		}
		var first []rediskv.Fields
		w.elsewhere = map[string]*ledger.Records{}
		if err := confirmed(ctx, w, entries, func(ctx context.Context, entries []entry) ([][]Finding, error) {
			findings, found, err := w.checkEntries(ctx, x, entries)
			if first == nil {
				first = found
			}
			return findings, err
		}); err != nil {
			return err
		}
		if each != nil {
			if err := each(ctx, entries, first); err != nil {
				return err
			}
		}
		at = entries[len(entries)-1].Score
		if err := w.passed(ctx, what, len(entries), prefix+place(at)); err != nil {
			return err
		}
	}
}

// listOf is what the index of a status is.
func listOf(status string) string { return "the list of those that are " + status }

func (w *walk) checkEntries(ctx context.Context, x index, entries []entry) ([][]Finding, []rediskv.Fields, error) {
	hashes, places := make([]*redis.SliceCmd, len(entries)), make([]*redis.FloatCmd, len(entries))
	if err := w.AtOnce(ctx, "entries", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, e := range entries {
			at := e.Of().Place(w.K)
			hashes[i] = pipe.HMGet(ctx, at.Key, at.Names(indexFields)...)
			places[i] = pipe.ZScore(ctx, x.key, e.Member)
		}
	}); err != nil {
		return nil, nil, err
	}
	findings, found, members := make([][]Finding, len(entries)), make([]rediskv.Fields, len(entries)), make([]ledger.Indexed, len(entries))
	for i, e := range entries {
		members[i] = e.Of()
		found[i] = members[i].Place(w.K).Read(hashes[i].Val(), indexFields)
	}
	archived, err := look.Filled(ctx, w.store.ledger, w.K, members, found)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(w.elsewhere, archived)
	listed := make([]*redis.FloatCmd, len(entries))
	if err := w.Pipelined(ctx, "entries", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, e := range entries {
			listed[i] = pipe.ZScore(ctx, w.K.TransactionsIn(found[i]["st"]), e.Member)
		}
	}); err != nil {
		return nil, nil, err
	}
	for i, e := range entries {
		f := found[i]
		if places[i].Err() != nil && !e.Cold {
			continue // it has moved on
		}
		if !e.Cold {
			e.Score = places[i].Val()
		}
		switch reason := x.not(f); {
		case f["st"]+f["ty"]+f["pos"] == "" && e.Of().Shared: // it was there, for it came with its entry
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "transaction", e.ID(), "%s has it, and it is not there", x.what)})
		case f["st"]+f["ty"]+f["pos"] == "":
			findings[i] = []Finding{w.dangling(x, e, f, "it is not there")}
		case e.Cold && f["pos"] != place(e.Score):
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "transaction", e.ID(), "%s in the archive has it at %s, and its position is %s", x.what, place(e.Score), f["pos"])})
		case e.Cold: // it may have gone on in Redis since, or in a later pack
		case reason != "":
			findings[i] = []Finding{w.dangling(x, e, f, reason)}
		case f["pos"] != place(e.Score):
			findings[i] = []Finding{w.misplaced(x.key, x.what, e.Member, f, place(e.Score))}
		case look.PlaceOf(listed[i]) != f["pos"]: // which leads to its payment
			findings[i] = []Finding{w.misplaced(w.K.TransactionsIn(f["st"]), listOf(f["st"]), e.Member, f, look.PlaceOf(listed[i]))}
		}
	}
	return findings, found, nil
}

// dangling is an entry of a transaction that does not belong there.
func (w *walk) dangling(x index, e entry, f rediskv.Fields, reason string) Finding {
	return repairable(consistency.Found(consistency.FindingIndex, "transaction", e.ID(), "%s has it, and %s", x.what, reason), func(c *rediskv.Commit) {
		w.still(c, e.Of(), f)
		c.Still(place(e.Score), "ZSCORE", x.key, e.Member)
		c.Do("ZREM", x.key, e.Member)
	}, "remove %s from %s", e.Member, x.key)
}

// still has a repair carried out only while a transaction is as it was read.
func (w *walk) still(c *rediskv.Commit, of ledger.Indexed, f rediskv.Fields) {
	key, begin := of.Place(w.K).Key, of.FieldPrefix()
	for _, name := range []string{"st", "pos"} {
		c.Still(f[name], "HGET", key, begin+name)
	}
	if !of.Shared { // else it never changes
		c.Still(f["ma"], "HGET", key, "ma")
	}
}

// misplaced is a transaction that an index lacks, or has in another place.
func (w *walk) misplaced(key, what, member string, f rediskv.Fields, there string) Finding {
	of := ledger.MemberAt(member, 0)
	text := "it is missing from " + what
	if there != "" {
		text = what + " has it at " + there + ", and its position is " + f["pos"]
	}
	finding := consistency.Found(consistency.FindingIndex, "transaction", of.ID, "%s", text)
	if _, err := strconv.ParseInt(f["pos"], 10, 64); err != nil {
		return Finding{Finding: finding}
	}
	return repairable(finding, func(c *rediskv.Commit) {
		w.still(c, of, f)
		c.Still(there, "ZSCORE", key, member)
		c.Do("ZADD", key, f["pos"], member)
	}, "add %s to %s at %s", member, key, f["pos"])
}

// transactions walks through all transactions, those of one status after the other, in the
// order in which payments come to them: those of payments lead to their payments, those of
// payouts to theirs.
func (w *walk) transactions(ctx context.Context) error {
	if err := confirmed(ctx, w, []string{w.K.Org}, w.checkSpans); err != nil {
		return err
	}
	from, at, _ := strings.Cut(w.at.At, "/")
	for n, status := range tollgate.TransactionStatuses {
		if first, err := strconv.Atoi(from); err == nil && n < first {
			continue
		}
		if err := w.transactionsIn(ctx, status, at, strconv.Itoa(n)+"/"); err != nil {
			return err
		}
		from, at = "", ""
	}
	return nil
}

func (w *walk) transactionsIn(ctx context.Context, status, at, prefix string) error {
	x := index{key: w.K.TransactionsIn(status), what: listOf(status), not: func(f rediskv.Fields) string {
		if f["st"] != status {
			return "it is " + f["st"]
		}
		return ""
	}}
	return w.through(ctx, x, "transactions", at, prefix, func(ctx context.Context, entries []entry, found []rediskv.Fields) error {
		var payments, payouts []string
		members, others := make([]ledger.Indexed, 0, len(entries)), []moved(nil)
		for i, e := range entries {
			members = append(members, e.Of())
			if of, number, _ := tollgate.NumberIn(e.ID()); w.elsewhere[of] != nil && e.Of().Shared {
				if number == tollgate.FirstNumber {
					w.report(w.archived(w.elsewhere[of]))
				}
				continue
			}
			switch f := found[i]; tollgate.TransactionType(f["ty"]) {
			case "":
				if _, number, ok := tollgate.NumberIn(e.ID()); ok && e.Of().Shared && number == tollgate.FirstNumber {
					payments = append(payments, tollgate.PrefixPayment+rediskv.Unprefixed(e.ID())) // it says that it has lost it
				}
			case tollgate.TransactionAuthorization:
				payments = append(payments, tollgate.PrefixPayment+rediskv.Unprefixed(e.ID()))
			case tollgate.TransactionPayout:
				payouts = append(payouts, tollgate.PrefixPayout+rediskv.Unprefixed(e.ID()))
			default:
				others = append(others, moved{e, f["pay"]})
			}
		}
		if err := confirmed(ctx, w, members, w.checkPosted); err != nil {
			return err
		}
		w.Looked["payments"] += int64(len(payments))
		w.Looked["payouts"] += int64(len(payouts))
		if err := confirmed(ctx, w, payments, w.checkPayments); err != nil {
			return err
		}
		if err := confirmed(ctx, w, others, w.checkMoved); err != nil {
			return err
		}
		return confirmed(ctx, w, payouts, w.checkPayouts)
	})
}

// checkSpans looks whether Redis knows which lists the archive has.
func (w *walk) checkSpans(ctx context.Context, _ []string) ([][]Finding, error) {
	wrong, err := look.Spans(ctx, w.Reader, w.store.ledger)
	findings := make([][]Finding, 1)
	for _, one := range wrong {
		findings[0] = append(findings[0], repairable(consistency.Found(consistency.FindingIndex, "organization", w.K.Org, "%s", one.Why), func(c *rediskv.Commit) {
			c.Still(one.Is, "HGET", ledger.ArchivedKey(w.K), one.Field)
			c.Do("HSET", ledger.ArchivedKey(w.K), one.Field, one.Want)
		}, "set %s of %s to %s", one.Field, ledger.ArchivedKey(w.K), one.Want))
	}
	return findings, err
}

// checkPosted looks whether searches find transactions.
func (w *walk) checkPosted(ctx context.Context, members []ledger.Indexed) ([][]Finding, error) {
	findings := make([][]Finding, len(members))
	err := w.store.ledger.Unposted(ctx, w.K, members, func(i int, why string, remake func(*rediskv.Commit)) {
		findings[i] = []Finding{repairable(consistency.Found(consistency.FindingIndex, "transaction", members[i].ID, "%s", why), remake, "have all postings made again")}
	})
	return findings, err
}

// moved is a transaction that is not its payment's authorization.
type moved struct {
	entry
	payment string
}

// checkMoved looks whether payments know the transactions that name them.
func (w *walk) checkMoved(ctx context.Context, list []moved) ([][]Finding, error) {
	replies := make([]func() ([]ledger.Indexed, []rediskv.Fields), len(list))
	if err := w.Pipelined(ctx, "moves", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, m := range list {
			if i > 0 && m.payment == list[i-1].payment {
				replies[i] = replies[i-1]
				continue
			}
			replies[i] = ledger.AskParts(ctx, pipe, w.K, m.payment)
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(list))
	for i, m := range list {
		own, _ := replies[i]()
		if !slices.ContainsFunc(own, func(x ledger.Indexed) bool { return x.Member() == m.Member }) {
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingPayment, "payment", m.payment, "transaction %s names it, and is not among its own", m.ID())})
		}
	}
	return findings, nil
}

// located is a transaction as it was read, and where the indexes have it.
type located struct {
	ledger.Indexed
	at     record.Place
	whole  *redis.MapStringStringCmd // a hash of its own
	some   *redis.SliceCmd           // its fields in one with others
	known  string                    // its status as it was a moment ago
	keys   []string
	what   []string
	scores []*redis.FloatCmd
}

// fields are those that were read, none where it is not there.
func (l *located) fields() rediskv.Fields {
	if l.whole != nil {
		return l.whole.Val()
	}
	return l.at.Read(l.some.Val(), nil)
}

// moved reports whether it has another status than the indexes were asked for.
func (l *located) moved() bool { return l.fields()["st"] != l.known }

// askTransaction queues the reading of a transaction.
func (w *walk) askTransaction(ctx context.Context, pipe redis.Pipeliner, of ledger.Indexed) *located {
	l := &located{Indexed: of, at: of.Place(w.K)}
	if names := l.at.Names(nil); len(names) > 0 {
		l.some = pipe.HMGet(ctx, l.at.Key, names...)
	} else {
		l.whole = pipe.HGetAll(ctx, l.at.Key)
	}
	return l
}

// locate queues the reading of a transaction of which some fields are known, and of its
// places.
func (w *walk) locate(ctx context.Context, pipe redis.Pipeliner, x ledger.Indexed, known rediskv.Fields) *located {
	l := w.askTransaction(ctx, pipe, x)
	l.known = known["st"]
	of := &tollgate.Transaction{Type: tollgate.TransactionType(known["ty"]), Status: known["st"], MerchantAccountID: known["ma"], Currency: tollgate.Currency(known["cur"])}
	of.AvailableOn, of.PayoutID = known.Optional("av"), known.Optional("po")
	l.keys, l.what = ledger.ListsOf(w.K, of)
	for _, key := range l.keys {
		l.scores = append(l.scores, pipe.ZScore(ctx, key, x.Member()))
	}
	return l
}

// located is the transaction, and what is wrong with it and its places.
func (w *walk) located(l *located) (x consistency.PlacedTransaction, findings []Finding) {
	f := l.fields()
	t, stored := ledger.TransactionOf(l.ID, f)
	if err := stored.Err(); err != nil {
		return consistency.PlacedTransaction{Transaction: t}, plain(consistency.FoundDamage(err))
	}
	x = consistency.PlacedTransaction{Transaction: t, Position: f.Int("pos")}
	for i, key := range l.keys {
		if there := look.PlaceOf(l.scores[i]); there != f["pos"] {
			findings = append(findings, w.misplaced(key, l.what[i], l.Member(), f, there))
		}
	}
	return x, findings
}
