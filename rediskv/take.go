package rediskv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

const (
	// firstCap is how many deliveries an endpoint gets at once before it has
	// answered; each success doubles it up to mostCap, a failure makes it 1.
	firstCap = 8
	mostCap  = 64
	// endpointsAtOnce is how many endpoints one look takes work from.
	endpointsAtOnce = 32
)

// Work is one attempt to make. Number is the attempt's number and the fencing
// token: only its holder can move the delivery, and only until Lease.
type Work struct {
	Organization string
	Endpoint     *Endpoint
	DeliveryID   string
	EventID      string
	EventType    tollgate.EventType
	Body         []byte // the event's JSON, frozen; nil when the log no longer has it
	Number       int
	Run          int // 1, 2, … of this run of the schedule
	Trigger      tollgate.AttemptTrigger
	ReplayID     string
	Died         bool // the attempt before never reported; it stays unknown
	Lease        tollgate.Instant
	AttemptID    string
	StartedAt    tollgate.Instant

	place string // the event's, in the log
}

// queueHead is an endpoint whose turn it is, with what is due there.
type queueHead struct {
	space space
	id    string
	most  int
	due   *redis.StringSliceCmd
	doc   *redis.MapStringStringCmd
	under *redis.IntCmd // attempts under way

	endpoint *Endpoint
	attempts map[string]string // ids of attempts by delivery
	taken    *redis.Cmd
}

// TakeDue leases up to slots due deliveries of a partition, from several
// endpoints in turn. next is when something will be due, zero when nothing is
// queued; more may be due at once when slots ran out. It takes four round
// trips, whatever the number of endpoints.
func (s *Store) TakeDue(ctx context.Context, partition, slots int, lease time.Duration) (work []Work, next tollgate.Instant, err error) {
	now := s.Now()
	heads, next, err := s.queueHeads(ctx, partition, slots, now)
	if err != nil || len(heads) == 0 {
		return nil, next, err
	}
	keys, args := make([][]string, len(heads)), make([][]any, len(heads))
	for i, h := range heads {
		if keys[i], args[i], err = s.takeArguments(h, now, now.Add(lease)); err != nil {
			return nil, now, err
		}
	}
	err = s.timed(ctx, scriptTakeWork.name, func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		for i, h := range heads {
			h.taken = scriptTakeWork.EvalSha(ctx, pipe, keys[i], args[i]...)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for i, h := range heads {
			if redis.HasErrorPrefix(h.taken.Err(), "NOSCRIPT") { // a pipeline has no second try
				h.taken = scriptTakeWork.Run(ctx, s.client, keys[i], args[i]...)
			}
			if err := h.taken.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, now, err
	}
	for _, h := range heads {
		taken, err := h.work(now, now.Add(lease))
		if err != nil {
			return nil, now, err
		}
		work = append(work, taken...)
	}
	return work, now, s.bodies(ctx, work)
}

// queueHeads reads the endpoints whose turn it is and what is due there; none,
// and when to look again, when it is nobody's.
func (s *Store) queueHeads(ctx context.Context, partition, slots int, now tollgate.Instant) (heads []*queueHead, next tollgate.Instant, err error) {
	err = s.timed(ctx, "ready_endpoints", func(ctx context.Context) error {
		ready, err := s.client.ZRangeWithScores(ctx, readyKey(partition), 0, endpointsAtOnce-1).Result()
		if err != nil || len(ready) == 0 {
			return err
		}
		next = tollgate.Instant(ready[0].Score)
		pipe := s.client.Pipeline()
		for _, r := range ready {
			if tollgate.Instant(r.Score) > now {
				break
			}
			member, _ := r.Member.(string)
			org, id, _ := strings.Cut(member, "/")
			k := s.space(org)
			heads = append(heads, &queueHead{
				space: k, id: id,
				doc:   pipe.HGetAll(ctx, k.object(id)),
				under: pipe.ZCount(ctx, k.leases(id), "("+milli(now), "+inf"),
				due:   pipe.ZRangeByScore(ctx, k.queue(id), &redis.ZRangeBy{Min: "-inf", Max: milli(now), Count: mostCap}),
			})
		}
		if len(heads) > 0 {
			_, err = pipe.Exec(ctx)
		}
		return err
	})
	for i, h := range heads {
		// A share for each, so that one endpoint's backlog leaves room.
		h.most = max(0, min(mostCap, slots/(len(heads)-i)))
		slots -= min(h.most, len(h.due.Val()))
	}
	return heads, next, err
}

// takeArguments prepares an endpoint's script. Of what is due it offers as much
// as there is room for; with no room the script only sees to the next turn.
func (s *Store) takeArguments(h *queueHead, now, until tollgate.Instant) (keys []string, args []any, err error) {
	k := h.space
	keys = []string{k.ready, k.object(h.id), k.queue(h.id), k.leases(h.id)}
	args = []any{milli(now), milli(until), firstCap, k.org + "/" + h.id, h.most}
	f := fields(h.doc.Val())
	if len(f) == 0 {
		return keys, args, nil
	}
	if h.endpoint, err = endpointOf(f); err != nil {
		return nil, nil, err
	}
	cap := int64(firstCap)
	if f["cap"] != "" {
		cap = f.int("cap")
	}
	room := min(int64(h.most), cap-h.under.Val(), int64(len(h.due.Val())))
	if room <= 0 {
		return keys, args, nil
	}
	// One attempt as JSON; the ids are put in their places.
	const attempt, delivery = "att_@", "dlv_@"
	head, tail, err := tollgate.Attempt{
		Object: "attempt", ID: attempt, CreatedAt: now, DeliveryID: delivery, Status: tollgate.AttemptUnknown, StartedAt: now, URL: h.endpoint.URL,
	}.Split()
	if err != nil {
		return nil, nil, err
	}
	h.attempts = make(map[string]string, room)
	for _, id := range h.due.Val()[:room] {
		h.attempts[id] = s.Mint(tollgate.PrefixAttempt)
		keys = append(keys, k.object(id), k.attempts(id))
		args = append(args, id, strings.NewReplacer(attempt, h.attempts[id], delivery, id).Replace(string(head)), tail)
	}
	return keys, args, nil
}

// work reads what the script has taken; Body holds the event's place in the
// log, or is the body of a ping.
func (h *queueHead) work(now, until tollgate.Instant) (work []Work, err error) {
	taken, err := h.taken.Slice()
	if err != nil {
		return nil, err
	}
	for _, one := range taken[1:] {
		part, _ := one.([]any)
		if len(part) != 4 {
			return nil, fmt.Errorf("redis take_work: %d parts", len(part))
		}
		delivery, _ := part[0].(string)
		number, _ := part[1].(string)
		died, _ := part[2].(int64)
		f := fieldsOf(part[3])
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("redis take_work: number %q", number)
		}
		work = append(work, Work{
			Organization: h.space.org, Endpoint: h.endpoint, DeliveryID: delivery, EventID: f["evt"], EventType: tollgate.EventType(f["et"]),
			Number: n, Run: int(f.int("run")), Trigger: tollgate.AttemptTrigger(f["trig"]), ReplayID: f["rpl"], Died: died == 1,
			Lease: until, AttemptID: h.attempts[delivery], StartedAt: now, Body: []byte(f["body"]), place: f["sid"],
		})
	}
	return work, nil
}

// bodies fetches the frozen events; a ping has its own.
func (s *Store) bodies(ctx context.Context, work []Work) error {
	if len(work) == 0 {
		return nil
	}
	return s.timed(ctx, "read_bodies", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.XMessageSliceCmd, len(work))
		for i, w := range work {
			if w.place != "" {
				replies[i] = pipe.XRangeN(ctx, s.space(w.Organization).events(), w.place, w.place, 1)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, r := range replies {
			if r == nil {
				continue
			}
			work[i].Body = nil
			if m := r.Val(); len(m) == 1 && text(m[0], "i") == work[i].EventID {
				work[i].Body = []byte(text(m[0], "b"))
			}
		}
		return nil
	})
}
