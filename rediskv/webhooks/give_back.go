package webhooks

import (
	"context"
	"slices"
	"sync"

	"tollgate/rediskv"
	"tollgate/rediskv/script"
)

// unanswered are runs of take_work, by partition, that may have leased what nobody
// will send: no answer came, however often the client library asked, or what is to
// be sent cannot be read.
type unanswered struct {
	mu sync.Mutex
	of [][]*queueHead
}

// mostUnanswered bounds them for each partition. What is beyond it waits until its
// lease runs out.
const mostUnanswered = 1024

func (u *unanswered) add(partition int, runs ...*queueHead) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, h := range runs {
		if len(u.of[partition]) < mostUnanswered && !slices.Contains(u.of[partition], h) {
			u.of[partition] = append(u.of[partition], h)
		}
	}
}

func (u *unanswered) take(partition int) []*queueHead {
	u.mu.Lock()
	defer u.mu.Unlock()
	runs := u.of[partition]
	u.of[partition] = nil
	return runs
}

// Unsent are deliveries that were taken and will not be sent: their leases end with
// the next look at their partition.
func (s *Store) Unsent(partition int, work []Work) {
	for _, w := range work {
		if w.run != nil {
			s.unanswered.add(partition, w.run)
		}
	}
}

type giveBackKeys struct{ Ready, Endpoint, Queue, Leases, Mark string }

type giveBackArgs struct {
	NowMs, ReadyMember string
	CandidateCount     int
}

var scriptGiveBack = script.New[giveBackKeys, giveBackArgs](lua, "give_back")

// EndUnsent ends the leases of a partition that this Store took and nobody sends
// anything for. What Redis does not answer now is for the next time.
func (s *Store) EndUnsent(ctx context.Context, partition int) error {
	runs := s.unanswered.take(partition)
	for i, h := range runs {
		k := h.space
		inv := scriptGiveBack.With(
			giveBackKeys{k.Ready, k.Object(h.id), k.Queue(h.id), k.Leases(h.id), h.mark},
			giveBackArgs{rediskv.Milli(s.db.Now()), h.member(), len(h.offered)},
		)
		inv.Args = append(inv.Args, rediskv.Anys(h.offered)...)
		if _, _, err := s.db.Run(ctx, inv); rediskv.Away(err) {
			s.unanswered.add(partition, runs[i:]...)
			return err
		} // any other error: the leases run out
	}
	return nil
}
