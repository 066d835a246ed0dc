package payouts

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
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// moveBatch is how many captures and fees one script moves; a larger one would
// hold up everybody else in the slot.
const moveBatch = 200

// DuePayouts lists payouts of a partition that are to be carried on.
func (s *Store) DuePayouts(ctx context.Context, partition, limit int) ([]Due, error) {
	return s.Due(ctx, "due_payouts", rediskv.PayoutsKey(partition), limit)
}

// MovePayout makes the next captures and fees of a payout available, or
// settled once it is paid, at most moveBatch of them. It returns false when
// the payout step comes next, and when there is nothing more to do.
func (s *Store) MovePayout(ctx context.Context, org, id string) (more bool, err error) {
	k := s.db.Space(org)
	p, err := s.StoredPayout(ctx, org, id)
	if rediskv.Gone(err) {
		return false, s.db.Timed(ctx, "forget_payout", func(ctx context.Context) error { return s.db.Redis.ZRem(ctx, k.Payouts, org+"/"+id).Err() })
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
		next, at = p.Step, strconv.FormatInt(members[moveBatch-1].Position, 10)
	}
	inv := scriptMoveMembers.With(
		moveMembersKeys{Payout: k.Object(id), Payouts: k.Payouts, OldIndex: k.TransactionsIn(from), NewIndex: k.TransactionsIn(to)},
		moveMembersArgs{
			Step: string(p.Step), Place: p.Fields["at"], NextStep: string(next), NextPlace: at, NewStatus: to, PayoutID: id, NowMs: rediskv.Milli(s.db.Now()), PayoutsMember: org + "/" + id,
		},
	)
	for _, m := range members {
		inv.Keys = append(inv.Keys, m.Place(k).Key)
		inv.Args = append(inv.Args, m.Member(), strconv.FormatInt(m.Position, 10), m.FieldPrefix())
	}
	_, _, err = s.db.Run(ctx, inv)
	return more, err
}

// StoredPayout reads a payout, and how far it is.
func (s *Store) StoredPayout(ctx context.Context, org, id string) (*ledger.StoredPayout, error) {
	k := s.db.Space(org)
	found, err := s.db.ReadHashes(ctx, "read_payout", k.Object(id))
	if err != nil {
		return nil, err
	}
	p, err := ledger.StoredPayoutOf(k, id, found[0])
	return p, s.db.Noticed(ctx, k, err)
}

// CommitPayout writes a step of a payout that was read. ErrConflict when anything
// of it has changed since, or the account's days have been closed on.
func (s *Store) CommitPayout(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, was *ledger.StoredPayout, ch *tollgate.PayoutChange, ans rediskv.Answer) (rediskv.Result, error) {
	b := s.db.NewCommit(c, idem)
	b.Answer = ans
	if err := payout(b, ctx, was, ch); err != nil {
		return rediskv.Result{}, err
	}
	return b.Run(ctx)
}

func payout(c *rediskv.Commit, ctx context.Context, was *ledger.StoredPayout, ch *tollgate.PayoutChange) error {
	k, p := c.Space, &ch.Payout
	key, member := k.Object(p.ID), k.Org+"/"+p.ID
	var f rediskv.Pairs
	state := ledger.PayoutState(p)
	for _, name := range slices.Sorted(maps.Keys(state)) {
		c.Still(was.Fields[name], "HGET", key, name)
		switch text := state[name]; {
		case text == was.Fields[name]:
		case name == "sum" && !p.Right && p.Status != tollgate.PayoutStatusHeld: // one that is not right any more stays, and keeps it from being paid
		case text == "":
			c.Do("HDEL", key, name)
		default:
			f.Set(name, text)
		}
	}
	if len(f) > 0 {
		f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	}
	becomes := maps.Clone(was.Fields)
	maps.Copy(becomes, state)
	c.Hashes = append(c.Hashes, rediskv.HashWrite{Key: key, Fields: f, Beside: becomes})
	switch {
	case p.Status == tollgate.PayoutStatusHeld, p.Status == tollgate.PayoutStatusFailed:
		c.Do("ZREM", k.Payouts, member)
	case p.Lease != was.Lease && p.Lease != 0:
		c.Do("ZADD", k.Payouts, rediskv.Milli(p.Lease), member)
	case p.Status != was.Status:
		c.Do("ZADD", k.Payouts, rediskv.Milli(p.UpdatedAt), member)
	}
	if p.Status != was.Status {
		if err := payoutTransaction(c, ctx, was, p); err != nil {
			return err
		}
	}
	if len(ch.Again) > 0 {
		closed := ""
		if ch.Closed != tollgate.NoDate {
			closed = ch.Closed.String()
		}
		c.Still(closed, "HGET", k.Object(p.MerchantAccountID), "closed")
		var again, refunded rediskv.Pairs
		for _, payable := range ch.Again {
			again, refunded = append(again, ledger.PayableFields(payable)...), append(refunded, ledger.RefundedFields(payable)...)
		}
		c.Do("HSET", k.Payable(p.MerchantAccountID), again...)
		if len(refunded) > 0 {
			c.Do("HSET", k.Refunds(p.MerchantAccountID), refunded...)
		}
		c.Sooner(k.Cutoffs, k.Org+"/"+p.MerchantAccountID, ch.LookAt)
	}
	if ch.Action == "" {
		return nil
	}
	c.Events = append(c.Events, ch.Event)
	return c.Audit(ch.Action, ch.Note, "payout", p.ID)
}

// payoutTransaction moves a payout's own transaction along with its status. Where
// nobody knows its place nothing is written, except that the payout is held.
func payoutTransaction(c *rediskv.Commit, ctx context.Context, was *ledger.StoredPayout, p *tollgate.StoredPayout) error {
	k, id := c.Space, tollgate.PayoutTransactionOf(p.ID)
	key, member := k.Object(id), rediskv.Unprefixed(id)
	var found rediskv.Fields
	var place string
	if err := c.Store.Timed(ctx, "payout_place", func(ctx context.Context) error {
		var hash *redis.MapStringStringCmd
		var score *redis.FloatCmd
		if err := c.Store.AtOnce(ctx, func(pipe redis.Pipeliner) {
			hash, score = pipe.HGetAll(ctx, key), pipe.ZScore(ctx, k.TransactionsIn(string(was.Status)), member)
		}); err != nil {
			return err
		}
		found = record.Verified(key, hash.Val())
		if place = found["pos"]; score.Err() == nil {
			place = strconv.FormatFloat(score.Val(), 'f', -1, 64)
		}
		return nil
	}); err != nil {
		return err
	}
	c.Still(found["st"], "HGET", key, "st")
	moves, released := found["st"] != string(p.Status), was.Status == tollgate.PayoutStatusHeld
	err := record.Check(found[rediskv.EnvelopeField]) // a new checksum would make it right
	if _, failed := strconv.ParseInt(place, 10, 64); failed != nil && moves {
		err = fmt.Errorf("transaction %s: its place %q", id, place)
	}
	if err != nil {
		if p.Status == tollgate.PayoutStatusHeld {
			return nil
		}
		return c.Store.DamagedAt(ctx, key, err)
	}
	if !moves && !released {
		return nil
	}
	var f rediskv.Pairs
	f.Set("st", string(p.Status))
	f.Set("upd", rediskv.Milli(p.UpdatedAt))
	if released {
		f.Int("amt", p.Amount().Minor)
	}
	if p.Reference != was.Reference {
		f.Set("ref", p.Reference)
	}
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	c.Hashes = append(c.Hashes, rediskv.HashWrite{Key: key, Fields: f, Beside: found})
	if moves {
		c.Do("ZREM", k.TransactionsIn(string(was.Status)), member)
		c.Do("ZADD", k.TransactionsIn(string(p.Status)), place, member)
	}
	return nil
}

// BeginPayout takes a payout to pay it, for as long as the lease, by Redis' time; nil
// when its turn has not come, when it is paid, or when another worker has it. A lease
// that ran out does not say that nothing was paid: the payout step is asked again, with
// the same id. A build before goes by the lease of the payout itself and its own clock.
func (s *Store) BeginPayout(ctx context.Context, org, id string, lease time.Duration) (*tollgate.Payout, error) {
	caller, operation := rediskv.Caller{Organization: org}, s.db.NewID("")
	k := s.db.Space(org)
	ctx, may := s.mayPay(ctx, k)
	if !may {
		return nil, nil
	}
	return rediskv.Retried(func() (*tollgate.Payout, error) {
		p, err := s.StoredPayout(ctx, org, id)
		if rediskv.Gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if p.Fields["op"] == operation { // the reply was lost, and it is still this worker's
			return &p.Payout, nil
		}
		ch := tollgate.BeginPayout(s.db.Origin(caller), p.StoredPayout, lease)
		if ch == nil {
			return nil, nil
		}
		if left, err := s.heldFor(ctx, k, id); left > 0 || err != nil {
			return nil, errors.Join(err, s.lookAgain(ctx, p, s.db.Now().Add(left)))
		}
		b := s.db.NewCommit(caller, nil)
		b.Still("", "GET", k.Paying(id))
		b.Do("SET", k.Paying(id), operation, "PX", strconv.FormatInt(lease.Milliseconds(), 10))
		b.Do("HSET", k.Object(id), "op", operation)
		if err := payout(b, ctx, p, ch); err != nil {
			return nil, err
		}
		switch outcome, _, err := b.Send(ctx, operation); {
		case err != nil:
			return nil, err
		case outcome == "done": // an earlier sending has, and another worker may have it since
			return nil, rediskv.ErrConflict
		case !p.Right && p.Fields["sum"] != "":
			return nil, s.db.Noticed(ctx, b.Space, tollgate.Damage("payout", id, fmt.Errorf("payout %s: its sum has changed since it was recomputed", id)))
		}
		return &ch.Payout.Payout, nil
	})
}

// heldFor is how long another worker has a payout yet.
func (s *Store) heldFor(ctx context.Context, k rediskv.Space, id string) (left time.Duration, err error) {
	err = s.db.Timed(ctx, "payout_lease", func(ctx context.Context) (err error) {
		left, err = s.db.Redis.PTTL(ctx, k.Paying(id)).Result()
		return err
	})
	return left, err
}

// lookAgain has a payout that another worker has looked at when the lease is over: by a
// clock ahead of Redis' it was due before.
func (s *Store) lookAgain(ctx context.Context, p *ledger.StoredPayout, at tollgate.Instant) error {
	b := s.db.NewCommit(rediskv.Caller{Organization: p.OrganizationID}, nil)
	for _, name := range []string{"st", "asked", "lease"} { // or it has gone on
		b.Still(p.Fields[name], "HGET", b.Space.Object(p.ID), name)
	}
	b.Do("ZADD", b.Space.Payouts, "XX", rediskv.Milli(at), b.Space.Org+"/"+p.ID)
	return unlessConflict(b.Run(ctx))
}

// DelayPayout asks for a payout again later: the payout step could not say what became
// of it. Where the lease was over, and another worker has asked since, it is that one's.
func (s *Store) DelayPayout(ctx context.Context, p *tollgate.Payout, until tollgate.Instant) error {
	b := s.db.NewCommit(rediskv.Caller{Organization: p.OrganizationID}, nil)
	k, key := b.Space, b.Space.Object(p.ID)
	b.Still(strconv.FormatInt(p.Asked, 10), "HGET", key, "asked")
	b.Do("HSET", key, "lease", rediskv.Milli(until))
	b.Do("ZADD", k.Payouts, "XX", rediskv.Milli(until), k.Org+"/"+p.ID)
	b.Do("DEL", k.Paying(p.ID))
	return unlessConflict(b.Run(ctx))
}

func unlessConflict(_ rediskv.Result, err error) error {
	if errors.Is(err, rediskv.ErrConflict) {
		return nil
	}
	return err
}

// PayoutAccount reads when an account is paid.
func (s *Store) PayoutAccount(ctx context.Context, org, account string) (tollgate.PayoutAccount, error) {
	a, _, err := s.payable(ctx, s.db.Space(org), account)
	if err != nil {
		return tollgate.PayoutAccount{}, err
	}
	return tollgate.PayoutAccount{Cutoffs: a.Cutoffs, Closed: a.Closed}, nil
}

type moveMembersKeys struct{ Payout, Payouts, OldIndex, NewIndex string }

type moveMembersArgs struct {
	Step, Place, NextStep, NextPlace, NewStatus, PayoutID, NowMs, PayoutsMember string
}

var scriptMoveMembers = script.New[moveMembersKeys, moveMembersArgs](lua, "move_members")
