package rediskv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// moveBatch is how many captures and fees one script moves; a larger one would
// hold up everybody else in the slot.
const moveBatch = 200

// DuePayouts lists payouts of a partition that are to be carried on.
func (s *Store) DuePayouts(ctx context.Context, partition, limit int) ([]Due, error) {
	return s.due(ctx, "due_payouts", payoutsKey(partition), limit)
}

// MovePayout makes the next captures and fees of a payout available, or
// settled once it is paid, at most moveBatch of them. It returns false when
// the payout step comes next, and when there is nothing more to do.
func (s *Store) MovePayout(ctx context.Context, org, id string) (more bool, err error) {
	k := s.space(org)
	p, err := s.StoredPayout(ctx, org, id)
	if gone(err) {
		return false, s.timed(ctx, "forget_payout", func(ctx context.Context) error { return s.client.ZRem(ctx, k.payouts, org+"/"+id).Err() })
	}
	if err != nil {
		return false, err
	}
	if p.Unchecked() {
		if more, err = s.checkPayout(ctx, k, p); err != nil || more {
			return more, err
		}
		if p, err = s.StoredPayout(ctx, org, id); err != nil || p.Unchecked() {
			return false, err
		}
	}
	from, to, next, moves := p.Moves()
	if !moves {
		return false, nil
	}
	members, _, err := s.members(ctx, k, &p.Payout, p.Place)
	if err != nil {
		return false, err
	}
	at := "0"
	if more = len(members) == moveBatch; more {
		next, at = p.Step, strconv.FormatInt(members[moveBatch-1].position, 10)
	}
	inv := scriptMoveMembers.with(
		moveMembersKeys{Payout: k.object(id), Payouts: k.payouts, OldIndex: k.transactionsIn(from), NewIndex: k.transactionsIn(to)},
		moveMembersArgs{
			Step: string(p.Step), Place: p.fields["at"], NextStep: string(next), NextPlace: at, NewStatus: to, PayoutID: id, NowMs: milli(s.Now()), PayoutsMember: org + "/" + id,
		},
	)
	for _, m := range members {
		inv.keys = append(inv.keys, k.object(m.id))
		inv.args = append(inv.args, unprefixed(m.id), strconv.FormatInt(m.position, 10))
	}
	_, _, err = s.run(ctx, inv)
	return more, err
}

// StoredPayout reads a payout, and how far it is.
func (s *Store) StoredPayout(ctx context.Context, org, id string) (*StoredPayout, error) {
	k := s.space(org)
	found, err := s.readHashes(ctx, "read_payout", k.object(id))
	if err != nil {
		return nil, err
	}
	p, err := storedPayout(k, id, found[0])
	return p, s.noticed(ctx, k, err)
}

// CommitPayout writes a step of a payout that was read. ErrConflict when anything
// of it has changed since, or the account's days have been closed on.
func (s *Store) CommitPayout(ctx context.Context, c Caller, idem *Idempotency, was *StoredPayout, ch *tollgate.PayoutChange, ans Answer) (Result, error) {
	b := s.commit(c, idem)
	b.answer = ans
	if err := b.payout(ctx, was, ch); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

func (c *commit) payout(ctx context.Context, was *StoredPayout, ch *tollgate.PayoutChange) error {
	k, p := c.space, &ch.Payout
	key, member := k.object(p.ID), k.org+"/"+p.ID
	var f pairs
	state := payoutState(p)
	for _, name := range slices.Sorted(maps.Keys(state)) {
		c.still(was.fields[name], "HGET", key, name)
		switch text := state[name]; {
		case text == was.fields[name]:
		case name == "sum" && !p.Right && p.Status != tollgate.Held: // one that is not right any more stays, and keeps it from being paid
		case text == "":
			c.do("HDEL", key, name)
		default:
			f.set(name, text)
		}
	}
	c.hash(key, "", f)
	switch {
	case p.Status == tollgate.Held, p.Status == tollgate.Failed:
		c.do("ZREM", k.payouts, member)
	case p.Lease != was.Lease && p.Lease != 0:
		c.do("ZADD", k.payouts, milli(p.Lease), member)
	case p.Status != was.Status:
		c.do("ZADD", k.payouts, milli(p.UpdatedAt), member)
	}
	if p.Status != was.Status {
		if err := c.payoutTransaction(ctx, was, p); err != nil {
			return err
		}
	}
	if len(ch.Again) > 0 {
		closed := ""
		if ch.Closed != tollgate.NoDate {
			closed = ch.Closed.String()
		}
		c.still(closed, "HGET", k.object(p.MerchantAccountID), "closed")
		var again, refunded pairs
		for _, payable := range ch.Again {
			again, refunded = append(again, payableFields(payable)...), append(refunded, refundedFields(payable)...)
		}
		c.do("HSET", k.payable(p.MerchantAccountID), again...)
		if len(refunded) > 0 {
			c.do("HSET", k.refunds(p.MerchantAccountID), refunded...)
		}
		c.sooner(k.cutoffs, k.org+"/"+p.MerchantAccountID, ch.LookAt)
	}
	if ch.Action == "" {
		return nil
	}
	c.events = append(c.events, ch.Event)
	return c.audit(ch.Action, ch.Note, "payout", p.ID)
}

// payoutTransaction moves a payout's own transaction along with its status. Where
// nobody knows its place nothing is written, except that the payout is held.
func (c *commit) payoutTransaction(ctx context.Context, was *StoredPayout, p *tollgate.StoredPayout) error {
	k, id := c.space, tollgate.PayoutTransactionOf(p.ID)
	key, member := k.object(id), unprefixed(id)
	var found fields
	var place string
	if err := c.store.timed(ctx, "payout_place", func(ctx context.Context) error {
		pipe := c.store.client.TxPipeline()
		hash, score := pipe.HMGet(ctx, key, "st", "pos"), pipe.ZScore(ctx, k.transactionsIn(string(was.Status)), member)
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		found = fieldsIn(hash.Val(), "st", "pos")
		if place = found["pos"]; score.Err() == nil {
			place = strconv.FormatFloat(score.Val(), 'f', -1, 64)
		}
		return nil
	}); err != nil {
		return err
	}
	c.still(found["st"], "HGET", key, "st")
	moves, released := found["st"] != string(p.Status), was.Status == tollgate.Held
	if _, err := strconv.ParseInt(place, 10, 64); err != nil && moves {
		if p.Status == tollgate.Held {
			return nil
		}
		return c.store.damagedAt(ctx, key, fmt.Errorf("transaction %s: its place %q", id, place))
	}
	if !moves && !released {
		return nil
	}
	var f pairs
	f.set("st", string(p.Status))
	f.set("upd", milli(p.UpdatedAt))
	if released {
		f.int("amt", p.Amount().Minor)
	}
	if p.Reference != was.Reference {
		f.set("ref", p.Reference)
	}
	c.hash(key, "", f)
	if moves {
		c.do("ZREM", k.transactionsIn(string(was.Status)), member)
		c.do("ZADD", k.transactionsIn(string(p.Status)), place, member)
	}
	return nil
}

// BeginPayout takes a payout to pay it, for as long as the lease; nil when its
// turn has not come, when it is paid, or when another worker has it. A lease
// that ran out does not say that nothing was paid: the payout step is asked
// again, with the same id.
func (s *Store) BeginPayout(ctx context.Context, org, id string, lease time.Duration) (*tollgate.Payout, error) {
	caller, operation := Caller{Organization: org}, s.Mint("")
	return Retried(func() (*tollgate.Payout, error) {
		p, err := s.StoredPayout(ctx, org, id)
		if gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if p.fields["op"] == operation { // the reply was lost, and it is still this worker's
			return &p.Payout, nil
		}
		ch := tollgate.BeginPayout(s.Origin(caller), p.StoredPayout, lease)
		if ch == nil {
			return nil, nil
		}
		b := s.commit(caller, nil)
		b.do("HSET", b.space.object(id), "op", operation)
		if err := b.payout(ctx, p, ch); err != nil {
			return nil, err
		}
		switch outcome, _, err := b.send(ctx, operation); {
		case err != nil:
			return nil, err
		case outcome == "done": // an earlier sending has, and another worker may have it since
			return nil, ErrConflict
		case !p.Right && p.fields["sum"] != "":
			return nil, s.noticed(ctx, b.space, tollgate.Damage("payout", id, fmt.Errorf("payout %s: its sum has changed since it was recomputed", id)))
		}
		return &ch.Payout.Payout, nil
	})
}

// DelayPayout asks for a payout again later: the payout step could not say
// what became of it.
func (s *Store) DelayPayout(ctx context.Context, org, id string, until tollgate.Instant) error {
	k := s.space(org)
	return s.timed(ctx, "delay_payout", func(ctx context.Context) error {
		pipe := s.client.TxPipeline()
		pipe.HSet(ctx, k.object(id), "lease", milli(until))
		pipe.ZAddXX(ctx, k.payouts, redis.Z{Score: float64(until), Member: org + "/" + id})
		_, err := pipe.Exec(ctx)
		return err
	})
}

// PayoutAccount reads when an account is paid.
func (s *Store) PayoutAccount(ctx context.Context, org, account string) (tollgate.PayoutAccount, error) {
	a, _, err := s.payable(ctx, s.space(org), account)
	if err != nil {
		return tollgate.PayoutAccount{}, err
	}
	return tollgate.PayoutAccount{Cutoffs: a.Cutoffs, Closed: a.Closed}, nil
}

type moveMembersKeys struct{ Payout, Payouts, OldIndex, NewIndex string }

type moveMembersArgs struct {
	Step, Place, NextStep, NextPlace, NewStatus, PayoutID, NowMs, PayoutsMember string
}

var scriptMoveMembers = newScript[moveMembersKeys, moveMembersArgs](lua, "move_members")
