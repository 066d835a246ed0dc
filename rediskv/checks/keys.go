package checks

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/keyring"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
)

// scanPage is how many keys Redis looks at per round trip.
const scanPage = 500

// organizationKey is the key of an organization, and of what belongs to it.
var organizationKey = regexp.MustCompile(`^\{p\d+\}:(org_\w+)(?::(.+))?$`)

// CheckKeys walks through all keys of Redis. It finds what no index leads to: payments,
// transactions, payouts, exports and endpoints that no list has, organizations that
// no partition names, and records of requests whose payment is not there. And it
// compares each record with its checksum, which a list may not lead to either; with those
// of no organization these are the keys that sign.
func (s *Store) CheckKeys(ctx context.Context, w *Walk) error {
	if w.Looked == nil {
		w.Looked = map[string]int64{}
	}
	if w.Organization == "" {
		for _, read := range []func(context.Context) (keyring.Keyring, error){s.keyring.Keyring, s.keyring.AuditKeys} {
			_, err := read(ctx)
			found := consistency.FoundDamage(err)
			for _, f := range plain(found) {
				w.Found(f)
			}
			if err != nil && found == nil {
				return err
			}
		}
	}
	var one sync.Mutex // masters take turns: what a walk calls is called by one goroutine
	return s.db.Masters(ctx, func(ctx context.Context, _ string, master peer.Client) error {
		one.Lock()
		defer one.Unlock()
		return s.keysOf(ctx, master, w)
	})
}

func (s *Store) keysOf(ctx context.Context, node redis.Cmdable, w *Walk) error {
	for cursor := uint64(0); ; {
		var keys []string
		if err := s.db.Timed(ctx, "check_keys", func(ctx context.Context) (err error) {
			keys, cursor, err = node.Scan(ctx, cursor, "{p*}:org_*", scanPage).Result()
			return err
		}); err != nil {
			return err
		}
		byOrg := map[string][]string{}
		for _, key := range keys {
			if part := organizationKey.FindStringSubmatch(key); part != nil && (w.Organization == "" || w.Organization == part[1]) {
				byOrg[part[1]] = append(byOrg[part[1]], part[2])
			}
		}
		for org, names := range byOrg {
			one := s.walk(w, s.db.Space(org))
			one.at = Place{Organization: org, Part: "keys"}
			if err := one.keys(ctx, names); err != nil && !one.damage(err) {
				return err
			}
		}
		if cursor == 0 {
			return nil
		}
	}
}

// keys looks at keys of one organization, by what follows it in them.
func (w *walk) keys(ctx context.Context, names []string) error {
	var payments, listed, records, parts, segments, lists, made []string
	itself := false
	for _, name := range names {
		switch {
		case name == "":
			itself = true
		case strings.HasPrefix(name, "idem:"):
			records = append(records, name)
		case strings.HasPrefix(name, "parts:"):
			parts = append(parts, name)
		case segmentKey.MatchString(name):
			segments = append(segments, name)
		case isList(name):
			lists = append(lists, name)
		case strings.Contains(name, ":"):
		case strings.HasPrefix(name, tollgate.PrefixPayment):
			payments = append(payments, name)
		case strings.HasPrefix(name, tollgate.PrefixExport):
			made = append(made, name)
		case w.lists(name, "") != "":
			listed = append(listed, name)
		}
	}
	if itself {
		if err := confirmed(ctx, w, []string{w.K.Org}, w.checkNamed); err != nil {
			return err
		}
	}
	if err := confirmed(ctx, w, lists, w.checkLists); err != nil {
		return err
	}
	if err := confirmed(ctx, w, made, w.checkAllExports); err != nil {
		return err
	}
	if slices.Contains(names, "grants") {
		if err := confirmed(ctx, w, []string{"grants"}, w.checkGrants); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(names, page) {
		if err := confirmed(ctx, w, some, w.checkSums); err != nil {
			return err
		}
		if err := w.passed(ctx, "keys", len(some), ""); err != nil {
			return err
		}
	}
	if err := confirmed(ctx, w, payments, w.checkUnlisted); err != nil {
		return err
	}
	if err := confirmed(ctx, w, listed, w.checkListed); err != nil {
		return err
	}
	for some := range slices.Chunk(parts, page) {
		if err := confirmed(ctx, w, some, w.checkParts); err != nil {
			return err
		}
		if err := w.passed(ctx, "parts", len(some), ""); err != nil {
			return err
		}
	}
	if err := confirmed(ctx, w, segments, w.checkSegmentNamed); err != nil {
		return err
	}
	return confirmed(ctx, w, records, w.checkRecords)
}

// lists is the list that leads to an object in a status, which has the object's id as a member.
func (w *walk) lists(id, status string) string {
	switch {
	case strings.HasPrefix(id, tollgate.PrefixTransaction), strings.HasPrefix(id, tollgate.PrefixPayout):
		return w.K.TransactionsIn(status)
	case strings.HasPrefix(id, tollgate.PrefixWebhook):
		return w.K.Webhooks()
	}
	return ""
}

// checkNamed looks whether the partition of an organization names it.
func (w *walk) checkNamed(ctx context.Context, _ []string) ([][]Finding, error) {
	set := rediskv.OrganizationsKey(w.K.Partition)
	var there *redis.BoolCmd
	var hash *redis.StringCmd
	if err := w.AtOnce(ctx, "organization", func(ctx context.Context, pipe redis.Pipeliner) {
		there, hash = pipe.SIsMember(ctx, set, w.K.Org), pipe.HGet(ctx, w.K.Organization(), "v")
	}); err != nil {
		return nil, err
	}
	if there.Val() || hash.Err() != nil {
		return make([][]Finding, 1), nil
	}
	return [][]Finding{{repairable(consistency.Found(consistency.FindingIndex, "organization", w.K.Org, "its partition does not name it"), func(c *rediskv.Commit) {
		c.Still(hash.Val(), "HGET", w.K.Organization(), "v")
		c.Do("SADD", set, w.K.Org)
	}, "add %s to %s", w.K.Org, set)}}, nil
}

// checkUnlisted checks payments whose authorization is in no list: a walk through the
// lists does not come to them.
func (w *walk) checkUnlisted(ctx context.Context, ids []string) ([][]Finding, error) {
	places, hashes := make([][2]*redis.FloatCmd, len(ids)), make([]*redis.SliceCmd, len(ids))
	payment := func(i int) record.Place { return record.Own(w.K.Object(ids[i])) }
	if err := w.Pipelined(ctx, "unlisted", func(ctx context.Context, pipe redis.Pipeliner) {
		for i := range ids {
			hashes[i] = pipe.HMGet(ctx, payment(i).Key, payment(i).Names([]string{"st"})...)
		}
	}); err != nil {
		return nil, err
	}
	if err := w.Pipelined(ctx, "unlisted", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, id := range ids {
			list, of := w.K.TransactionsIn(payment(i).Read(hashes[i].Val(), []string{"st"})["st"]), ledger.Indexed{ID: tollgate.AuthorizationOf(id)}
			places[i] = [2]*redis.FloatCmd{pipe.ZScore(ctx, list, of.Member())}
			of.Shared = true
			places[i][1] = pipe.ZScore(ctx, list, of.Member())
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(ids))
	for i, id := range ids {
		if places[i][0].Err() == nil || places[i][1].Err() == nil {
			continue
		}
		found, err := w.checkPayments(ctx, []string{id})
		if err != nil {
			return nil, err
		}
		findings[i] = found[0]
	}
	return findings, nil
}

// checkListed looks whether a list leads to objects.
func (w *walk) checkListed(ctx context.Context, ids []string) ([][]Finding, error) {
	there := make([]redis.Cmder, len(ids))
	hashes := make([]*redis.SliceCmd, len(ids))
	if err := w.Pipelined(ctx, "listed", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, id := range ids {
			hashes[i] = pipe.HMGet(ctx, w.K.Object(id), indexFields...)
		}
	}); err != nil {
		return nil, err
	}
	if err := w.Pipelined(ctx, "listed", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, id := range ids {
			key := w.lists(id, record.FieldsIn(hashes[i].Val(), indexFields...)["st"])
			switch {
			case strings.HasPrefix(id, tollgate.PrefixWebhook):
				there[i] = pipe.HGet(ctx, key, id)
			default:
				_, member, _ := strings.Cut(id, "_") // a payout's transaction is named after it
				there[i] = pipe.ZScore(ctx, key, member)
			}
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(ids))
	for i, id := range ids {
		f := record.FieldsIn(hashes[i].Val(), indexFields...)
		if !errors.Is(there[i].Err(), redis.Nil) || f["st"] == "" {
			continue
		}
		switch {
		case strings.HasPrefix(id, tollgate.PrefixTransaction):
			findings[i] = []Finding{w.misplaced(w.lists(id, f["st"]), listOf(f["st"]), rediskv.Unprefixed(id), f, "")}
		case strings.HasPrefix(id, tollgate.PrefixPayout):
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingPayout, "payout", id, "its transaction is in no list")})
		default:
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "webhook_endpoint", id, "the fan-out does not know it")})
		}
	}
	return findings, nil
}

// checkRecords looks whether the payments that records of requests name are there.
func (w *walk) checkRecords(ctx context.Context, names []string) ([][]Finding, error) {
	texts := make([]*redis.StringCmd, len(names))
	if err := w.Pipelined(ctx, "records", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, name := range names {
			texts[i] = pipe.Get(ctx, w.K.Object(name))
		}
	}); err != nil {
		return nil, err
	}
	named := make([][]string, len(names))
	there := map[string]*redis.IntCmd{}
	if err := w.Pipelined(ctx, "records", func(ctx context.Context, pipe redis.Pipeliner) {
		for i := range names {
			named[i] = payments.In(texts[i].Val())
			for _, id := range named[i] {
				if there[id] == nil {
					there[id] = pipe.Exists(ctx, w.K.Object(id))
				}
			}
		}
	}); err != nil {
		return nil, err
	}
	archived, err := look.Elsewhere(ctx, w.store.ledger, w.K, there, func(one *redis.IntCmd) bool { return one.Val() == 0 })
	if err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(names))
	for i, name := range names {
		for _, id := range named[i] {
			if there[id].Val() == 0 && archived[id] == nil {
				findings[i] = append(findings[i], plain([]consistency.Finding{consistency.Found(consistency.FindingIdempotency, "idempotency_record", strings.TrimPrefix(name, "idem:"), "its answer names payment %s, which is not there", id)})...)
			}
		}
	}
	return findings, nil
}
