package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// MostAtOnce is how many deliveries an endpoint gets at once when all is well.
const MostAtOnce = 128

const (
	// firstCap is how many deliveries an endpoint gets at once before it has
	// answered; each success doubles it up to mostCap, a failure makes it 1.
	firstCap = 8
	mostCap  = MostAtOnce
	// endpointsAtOnce is how many endpoints one look takes work from.
	endpointsAtOnce = 32
	// backlogsAtOnce is how many of them may have more than they get now.
	backlogsAtOnce = 4
)

// Work is one attempt to make. Number is the attempt's number and the fencing
// token: only its holder can move the delivery, and only until Lease.
type Work struct {
	Organization string
	Endpoint     *tollgate.StoredWebhook
	DeliveryID   string
	EventID      string
	EventType    tollgate.EventType
	Body         []byte // the event's JSON, frozen; once it is read; nil when the log no longer has it
	Damaged      bool   // it, or the delivery, is not what was written
	Unread       bool   // it is in the archive, which cannot be read now
	Number       int
	Run          int // 1, 2, … of this run of the schedule
	Trigger      tollgate.AttemptTrigger
	ReplayID     string
	Died         bool             // the attempt before never reported; it stays unknown
	Lease        tollgate.Instant // when it ends, by Redis' time
	AttemptID    string
	StartedAt    tollgate.Instant
	Trace        string // the traceparent of the request that caused the event; empty: it was not traced

	place  string     // the event's, in the log
	run    *queueHead // what leased it
	folded bool       // as made.folded
}

// of says what its delivery has been made of.
func (w *Work) of(m *made) {
	w.EventID, w.EventType, w.place, w.folded = m.event, m.kind, m.place, m.folded
}

// Turn is an endpoint whose turn it is, and how many of the deliveries that are
// due there it can get.
type Turn struct {
	Organization string
	Endpoint     *tollgate.StoredWebhook
	Room         int
}

// queueHead is an endpoint whose turn it is, with what is due there; no
// Endpoint when there is none any more.
type queueHead struct {
	Turn
	space  rediskv.Space
	id     string
	due    *redis.StringSliceCmd
	health *redis.SliceCmd // revision, cap, last success, failures
	under  *redis.IntCmd   // attempts under way
	state  rediskv.Fields  // the health
	cap    int

	offered []string // deliveries
	made    []*made  // what this Store knows of them, nil for those that it has not made
	mark    string   // of the run that leases some of them
	taken   *redis.Cmd
}

// member is the endpoint in its partition's queue of endpoints, and among those that are
// known.
func (h *queueHead) member() string { return h.space.Org + "/" + h.id }

// TakeDue leases due deliveries of a partition, from several endpoints in turn;
// ReadBodies fetches what is to be sent. reserve is told how many each endpoint
// can get now, and makes that as many as are wanted; it is not asked when there
// are none. next is when something will be due, zero when nothing is queued.
// With an error there may be work, too: what is leased
// is to be sent, whatever became of another endpoint's. It takes two round trips
// for endpoints that had their turn at the last look, too, and three for others,
// whatever their number, besides one for each endpoint that has changed.
func (s *Store) TakeDue(ctx context.Context, partition int, reserve func([]*Turn), lease time.Duration) (work []Work, next tollgate.Instant, err error) {
	if err := s.EndUnsent(ctx, partition); err != nil {
		return nil, 0, err
	}
	heads, next, err := s.queueHeads(ctx, partition, s.db.Now())
	if err != nil || len(heads) == 0 {
		return nil, next, err
	}
	if heads, err = s.readable(ctx, heads); err != nil || len(heads) == 0 {
		return nil, s.db.Now(), err
	}
	var turns []*Turn
	var asked []*queueHead
	for _, h := range heads {
		if h.Room > 0 {
			turns, asked = append(turns, &h.Turn), append(asked, h)
		}
	}
	if len(turns) > 0 {
		reserve(turns)
	}
	now := s.db.Now()
	var refused []redis.Z // and behind those that wait longer
	heads = slices.DeleteFunc(heads, func(h *queueHead) bool {
		none := h.Room == 0 && slices.Contains(asked, h)
		if none {
			refused = append(refused, redis.Z{Score: float64(now), Member: h.member()})
		}
		return none
	})
	taking := make([]*script.Invocation, len(heads))
	for i, h := range heads {
		taking[i] = s.taking(h, now, lease)
		s.db.Histories.Guard(ctx, taking[i])
	}
	err = s.db.Timed(ctx, scriptTakeWork.Name, func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		if len(refused) > 0 {
			pipe.ZAddXX(ctx, rediskv.ReadyKey(partition), refused...)
		}
		for i, h := range heads {
			h.taken = taking[i].EvalSha(ctx, pipe, taking[i].Keys, taking[i].Args...)
		}
		_, failed := pipe.Exec(ctx)
		if len(heads) > 0 {
			failed = nil // each script has its own
		}
		for i, h := range heads {
			if redis.HasErrorPrefix(h.taken.Err(), "NOSCRIPT") { // a pipeline has no second try
				h.taken = taking[i].Run(ctx, s.db.Redis, taking[i].Keys, taking[i].Args...)
			}
			failed = cmp.Or(failed, h.taken.Err())
		}
		return failed
	})
	for i, h := range heads {
		if failed := h.taken.Err(); failed != nil {
			if !peer.IsReply(failed) && len(h.offered) > 0 {
				s.unanswered.add(partition, h)
			}
			continue
		}
		if reply, _ := h.taken.Slice(); len(reply) > 0 && reply[0] == history.Outcome {
			err = cmp.Or(err, s.db.OtherHistory(ctx, taking[i]))
			continue
		}
		taken, after, fault := s.work(ctx, h, work, now)
		if fault != nil {
			err = cmp.Or(err, fault)
			continue
		}
		work, next = taken, earliest(next, after)
	}
	if err != nil || len(refused) > 0 {
		next = now
	}
	return work, next, err
}

// earliest is the earlier of two moments, of which zero is none.
func earliest(a, b tollgate.Instant) tollgate.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// nextOf reads when a script says that something is due; now when it does not know.
func (s *Store) nextOf(value any) tollgate.Instant {
	text, _ := value.(string)
	if text == "" {
		return 0
	}
	at, err := strconv.ParseFloat(text, 64)
	if err != nil || at == 0 {
		return s.db.Now()
	}
	return tollgate.Instant(at)
}

// readable finds the endpoints as they are now and sets aside those that cannot
// be read: they concern nobody else.
func (s *Store) readable(ctx context.Context, heads []*queueHead) (all []*queueHead, err error) {
	for _, h := range heads {
		h.Endpoint, err = s.current(ctx, h)
		switch {
		case rediskv.IsDamage(err):
			if err = s.setAside(ctx, h, s.db.Now().Add(damagedPause)); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case h.Endpoint == nil:
			h.Room = 0
		}
		all = append(all, h)
	}
	return all, nil
}

// damagedPause is when an endpoint that cannot be read is looked at again.
const damagedPause = time.Minute

func (s *Store) setAside(ctx context.Context, h *queueHead, until tollgate.Instant) error {
	return s.db.Timed(ctx, "set_aside", func(ctx context.Context) error {
		return s.db.Redis.ZAddXX(ctx, h.space.Ready, redis.Z{Score: float64(until), Member: h.member()}).Err()
	})
}

// queueHeads reads the endpoints whose turn it is and what is due there, and when it is
// the turn of others: zero when there are none. Busy endpoints have their turn
// again and again: those of the last look are asked before it is known that it
// is theirs.
func (s *Store) queueHeads(ctx context.Context, partition int, now tollgate.Instant) (heads []*queueHead, next tollgate.Instant, err error) {
	err = s.db.Timed(ctx, "ready_endpoints", func(ctx context.Context) error {
		asked := map[string]*queueHead{}
		pipe := s.db.Redis.Pipeline()
		turns := pipe.ZRangeWithScores(ctx, rediskv.ReadyKey(partition), 0, endpointsAtOnce-1)
		if last := s.turns[partition].Load(); last != nil {
			for _, member := range *last {
				asked[member] = s.ask(ctx, pipe, member, now)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		ready := turns.Val()
		if len(ready) == endpointsAtOnce { // there may be others
			next = now
		}
		var members []string
		for _, r := range ready {
			if tollgate.Instant(r.Score) > now {
				next = tollgate.Instant(r.Score)
				break
			}
			member, _ := r.Member.(string)
			members = append(members, member)
			if asked[member] == nil {
				asked[member] = s.ask(ctx, pipe, member, now)
			}
			heads = append(heads, asked[member])
		}
		s.turns[partition].Store(&members)
		if pipe.Len() == 0 {
			return nil
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil {
		return nil, next, err
	}
	for _, h := range heads {
		h.state = record.FieldsIn(h.health.Val(), "v", "cap", "ok", "fail")
		h.cap = firstCap
		if n := record.ReadHash("webhook_endpoint", h.id, h.state).Count("cap"); n > 0 {
			h.cap = int(n)
		}
		h.Room = max(0, min(h.cap-int(h.under.Val()), len(h.due.Val())))
	}
	all := len(heads)
	if heads = s.shortFirst(partition, heads); len(heads) < all {
		next = now
	}
	return heads, next, nil
}

// ask adds what has to be known of an endpoint to a pipeline.
func (s *Store) ask(ctx context.Context, pipe redis.Pipeliner, member string, now tollgate.Instant) *queueHead {
	org, id, _ := strings.Cut(member, "/")
	k := s.db.Space(org)
	return &queueHead{
		Turn: Turn{Organization: org}, space: k, id: id,
		health: pipe.HMGet(ctx, k.Object(id), "v", "cap", "ok", "fail"),
		under:  pipe.ZCount(ctx, k.Leases(id), "("+rediskv.Milli(now+tollgate.Instant(s.apart.Load())), "+inf"),
		due:    pipe.ZRangeByScore(ctx, k.Queue(id), &redis.ZRangeBy{Min: "-inf", Max: rediskv.Milli(now), Count: s.atMost(k, id)}),
	}
}

// atMost is how many due deliveries of an endpoint are worth reading: one more
// than it can get, as far as is known here.
func (s *Store) atMost(k rediskv.Space, id string) int64 {
	if known, ok := s.endpoints.Load(k.Org + "/" + id); ok {
		return int64(min(2*known.(*knownEndpoint).cap, mostCap)) + 1
	}
	return mostCap + 1
}

// shortFirst chooses whose turn it is: everybody who gets all that is due, and
// every other time a few of those that have a backlog. What goes to an endpoint
// that keeps up does not wait behind many that do not.
func (s *Store) shortFirst(partition int, heads []*queueHead) []*queueHead {
	var short, long []*queueHead
	for _, h := range heads {
		if len(h.due.Val()) == h.Room {
			short = append(short, h)
		} else {
			long = append(long, h)
		}
	}
	if len(short) > 0 && len(long) > 0 && s.leftOut[partition].CompareAndSwap(false, true) {
		return short
	}
	s.leftOut[partition].Store(false)
	return append(short, long[:min(len(long), backlogsAtOnce)]...)
}

type takeWorkKeys struct{ Ready, Endpoint, Queue, Leases, Targets, Mark string }

type takeWorkArgs struct {
	NowMs            string
	LeaseMs          int64
	FirstCap         int
	ReadyMember, URL string
	CandidateCount   int
}

var scriptTakeWork = script.New[takeWorkKeys, takeWorkArgs](lua, "take_work")

// taking prepares an endpoint's script. Of what is due it offers as much as there
// is room for; with no room the script only sees to the next turn.
func (s *Store) taking(h *queueHead, now tollgate.Instant, lease time.Duration) *script.Invocation {
	k := h.space
	args := takeWorkArgs{NowMs: rediskv.Milli(now), LeaseMs: lease.Milliseconds(), FirstCap: firstCap, ReadyMember: h.member()}
	if h.Endpoint != nil {
		h.offered = h.due.Val()[:h.Room]
		args.URL, args.CandidateCount = h.Endpoint.URL, h.Room
	}
	h.mark = k.Mark(s.db.NewID(""))
	inv := scriptTakeWork.With(takeWorkKeys{k.Ready, k.Object(h.id), k.Queue(h.id), k.Leases(h.id), k.Targets(h.id), h.mark}, args)
	h.made = s.made.of(h.offered)
	for _, id := range h.offered {
		inv.Keys = append(inv.Keys, k.Object(id), k.Attempts(id))
		inv.Args = append(inv.Args, id)
	}
	for _, m := range h.made {
		known := ""
		if m != nil {
			known = "1"
		}
		inv.Args = append(inv.Args, known)
	}
	return inv
}

// knownEndpoint is an endpoint as it was at the last look.
type knownEndpoint struct {
	tollgate.StoredWebhook
	cap int
}

// current returns the endpoint as it is now: the document as it was read last,
// unless its revision is another one. nil when there is none any more.
func (s *Store) current(ctx context.Context, h *queueHead) (*tollgate.StoredWebhook, error) {
	name := h.member()
	if h.state["v"] == "" {
		s.endpoints.Delete(name)
		return nil, nil
	}
	now := knownEndpoint{cap: h.cap}
	if known, ok := s.endpoints.Load(name); ok && known.(*knownEndpoint).Revision == h.state.Int("v") {
		now.StoredWebhook = known.(*knownEndpoint).StoredWebhook
	} else {
		e, err := s.endpoint(ctx, h.space, h.id)
		if rediskv.Gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		now.StoredWebhook = *e
	}
	health := record.ReadHash("webhook_endpoint", h.id, h.state)
	now.LastSuccess, now.Failures = health.Moment("ok"), health.Count("fail")
	s.endpoints.Store(name, &now)
	return &now.StoredWebhook, nil
}

// work reads what the script has taken, and when the endpoint has something due next.
func (s *Store) work(ctx context.Context, h *queueHead, work []Work, now tollgate.Instant) ([]Work, tollgate.Instant, error) {
	taken, err := h.taken.Slice()
	if err != nil {
		return nil, 0, err
	}
	if len(taken) < 4 {
		return nil, 0, fmt.Errorf("redis take_work: %d parts", len(taken))
	}
	real, _ := taken[1].(int64)
	until, _ := taken[2].(int64)
	s.apart.Store(real - int64(s.db.Now()))
	for _, one := range taken[4:] {
		part, _ := one.([]any)
		index, _ := first(part).(int64)
		if index < 1 || int(index) > len(h.offered) {
			return nil, 0, fmt.Errorf("redis take_work: candidate %d of %d", index, len(h.offered))
		}
		if len(part) == 1 { // it cannot be read, and is left alone for as long as a lease
			_ = s.db.Damaged(ctx, h.space, "delivery", h.offered[index-1], errors.New("it cannot be taken"))
			continue
		}
		w, err := s.taken(ctx, h, int(index)-1, part, now)
		if err != nil {
			return nil, 0, err
		}
		w.Lease = tollgate.Instant(until)
		work = append(work, w)
	}
	return work, s.nextOf(taken[3]), nil
}

func first(part []any) any {
	if len(part) == 0 {
		return nil
	}
	return part[0]
}

// taken reads one delivery that the script has taken. A ping has a body and no place in
// the log.
func (s *Store) taken(ctx context.Context, h *queueHead, i int, part []any, now tollgate.Instant) (w Work, err error) {
	text := func(n int) string { s, _ := part[n].(string); return s }
	if len(part) != 4 && len(part) != 14 {
		return w, fmt.Errorf("redis take_work: %d parts", len(part))
	}
	run, _ := part[2].(int64)
	died, _ := part[3].(int64)
	number, err := strconv.Atoi(text(1))
	if err != nil {
		return w, fmt.Errorf("redis take_work: number %q", text(1))
	}
	w = h.attempt(h.offered[i], number, now)
	w.Run, w.Died = int(run), died == 1
	if len(part) == 4 {
		if h.made[i] == nil {
			return w, errors.New("redis take_work: a delivery that another worker has made")
		}
		w.of(h.made[i])
		s.made.forget(w.DeliveryID)
		return w, nil
	}
	w.Trigger, w.ReplayID = tollgate.AttemptTrigger(text(4)), text(5)
	is := rediskv.Fields{"evt": text(6), "et": text(7), "sid": text(8), "body": text(9), "we": text(10), "crt": text(11), rediskv.EnvelopeField: text(12)}
	if w.folded = text(13) != ""; w.folded {
		is[record.FoldField] = text(13)
	}
	is = record.Verified(h.space.Object(w.DeliveryID), is)
	w.EventID, w.EventType, w.place = is["evt"], tollgate.EventType(is["et"]), is["sid"]
	if w.place == "" {
		w.Body = []byte(is["body"])
	}
	if err := record.Check(is[rediskv.EnvelopeField]); err != nil {
		_ = s.db.Damaged(ctx, h.space, "delivery", w.DeliveryID, err)
		w.Damaged, w.Body, w.place = true, nil, ""
	}
	return w, nil
}

// attempt is one of a delivery to an endpoint, which begins now.
func (h *queueHead) attempt(delivery string, number int, now tollgate.Instant) Work {
	return Work{
		Organization: h.space.Org, Endpoint: h.Endpoint, DeliveryID: delivery, AttemptID: attemptOf(delivery, number, now),
		Number: number, Run: 1, Trigger: tollgate.TriggeredBySchedule, StartedAt: now, run: h,
	}
}

// Beside reports whether others were offered to an endpoint together with it.
func (w *Work) Beside() bool { return w.run != nil && len(w.run.offered) > 1 }

// KnownEndpoints is how many endpoints the Store keeps in memory.
func (s *Store) KnownEndpoints() (n int) {
	s.endpoints.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
