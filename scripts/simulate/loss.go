package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tollgate/rediskv/history"
	"tollgate/scripts/simulate/draw"
	"tollgate/scripts/simulate/ledger"
)

// loss is what is known of what Redis has lost although it had acknowledged it.
type loss struct {
	mu      sync.Mutex
	times   []lostTime
	found   time.Time // when a process last said so; zero: none has
	waiting bool      // for an operator
	decided int       // how often one has decided
	looking int       // operators who will look whether their decision is still there
	told    bool      // clients know that data may be missing,
	dated   bool      // and from when on:
	since   time.Time // zero, if from the beginning
}

// lostTime is one time that Redis went back.
type lostTime struct {
	from, to time.Time // the first change that is lost, and the moment it went back
	// tellers are the processes that had been told of an event that is lost. One of them
	// has to say so, if it lives.
	tellers []*process
}

// wentBack is told that Redis has gone back by changes that somebody knew of.
func (x *world) wentBack(from time.Time, tellers []*process) {
	l := &x.loss
	l.mu.Lock()
	l.times = append(l.times, lostTime{from, x.wire.now(), tellers})
	again, times := l.decided > 0, len(l.times)
	if again {
		l.looking++
	}
	l.mu.Unlock()
	if again { // it may be lost, and whoever knew of it may have ended
		wait := draw.Between(x.wire.chance.Of("look again", times), 40*time.Second, 90*time.Second)
		x.wire.push(time.Now().Add(wait), 0, func() {
			x.running.Go(func() {
				x.accept()
				l.mu.Lock()
				defer l.mu.Unlock()
				l.looking--
			})
		})
	}
	for _, o := range x.judge.wants {
		x.excuse(o)
	}
}

// excuse has a promise be one no more that Redis may have forgotten: what was sent
// before it went back, and acknowledged after what is lost had begun.
func (x *world) excuse(o *outcome) {
	l := &x.loss
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.times {
		if o.known && t.has(o) {
			o.excused = true
		}
	}
}

// has says whether what was promised may be among what was lost then.
func (t lostTime) has(o *outcome) bool { return !o.acked.Before(t.from) && !o.sent.After(t.to) }

// known says whether a process had been told of something that was lost with what an
// outcome promised.
func (l *loss) known(by *process, o *outcome) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.times, func(t lostTime) bool { return t.has(o) && slices.Contains(t.tellers, by) })
}

// wasTold says whether clients know that something may be missing.
func (x *world) wasTold() bool {
	x.loss.mu.Lock()
	defer x.loss.mu.Unlock()
	return x.loss.told
}

// back says whether Redis has ever gone back, and when it last did.
func (l *loss) back() (last time.Time, ever bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.times) == 0 {
		return last, false
	}
	return l.times[len(l.times)-1].to, true
}

// undecided is since when a loss is known and not decided; false: there is none.
func (l *loss) undecided() (since time.Time, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found, l.waiting
}

// unsettled says whether an operator has something to do.
func (x *world) unsettled() bool {
	_, emptied := x.wire.emptied()
	_, waits := x.loss.undecided()
	x.loss.mu.Lock()
	defer x.loss.mu.Unlock()
	return emptied || waits || x.loss.looking > 0
}

// lostBy is told by a process that Redis has lost something. An operator decides on it
// some time later.
func (x *world) lostBy(p *process) {
	if _, ever := x.loss.back(); !ever {
		x.judge.wrong("%s says that Redis has lost something, and it has not", p.name)
	}
	l := &x.loss
	x.wire.tell("%s has found that Redis has lost something", p.name)
	l.mu.Lock()
	waiting, decided := l.waiting, l.decided
	l.found, l.waiting = x.wire.now(), true
	l.mu.Unlock()
	if waiting {
		return
	}
	wait := draw.Between(x.wire.chance.Of("accept", decided), 40*time.Second, 90*time.Second)
	x.wire.at(time.Now().Add(wait), 0, func() { x.running.Go(x.accept) })
}

// accept is an operator's `tollgate history accept`. Where Redis has nothing, a copy is
// put back first, and everybody looks at it.
func (x *world) accept() {
	for _, emptied := x.wire.emptied(); emptied; _, emptied = x.wire.emptied() {
		pause(x.ctx, 20*time.Second)
	}
	done := make(chan struct{})
	var once sync.Once
	operator := x.start("operator-accepts", func(ctx context.Context, p *process) error {
		s, err := p.connect(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		if x.loss.accepted() == 0 {
			x.judgeBank()
		}
		for partition := range s.Partitions() {
			if _, err := s.Histories.Accept(ctx, partition, false, 0); err != nil && !errors.Is(err, history.ErrNothingToAccept) {
				return err
			}
		}
		x.loss.mu.Lock()
		x.loss.waiting = false
		x.loss.decided++
		x.loss.mu.Unlock()
		x.wire.tell("the operator has accepted what is lost")
		once.Do(func() { close(done) })
		<-ctx.Done()
		return nil
	})
	defer operator.end()
	select {
	case <-done:
	case <-x.ctx.Done():
	}
}

// historyCode is what a problem says of a history, empty where it says something else.
func historyCode(said answer) string {
	if said.status != http.StatusGone || !strings.Contains(string(said.body), `"history_changed"`) {
		return ""
	}
	return "history_changed"
}

// changed notes what a client is told: the history that its token or cursor is of has
// ended, and since when data may be missing.
func (x *world) changed(said answer) {
	var problem struct {
		Since time.Time `json:"since"`
	}
	if err := json.Unmarshal(said.body, &problem); err != nil {
		x.judge.wrong("%s: %v", said.body, err)
	}
	if _, ever := x.loss.back(); !ever {
		x.judge.wrong("Redis has lost nothing, and a client is told %s", said.body)
	}
	l := &x.loss
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := problem.Since; !l.dated || at.Before(l.since) {
		l.since, l.dated = at, true
	}
	l.told = true
}

// accepted is how many losses an operator has accepted. What is captured anew after that
// is paid anew: what the bank paid for it before is the operator's to settle.
func (l *loss) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decided
}

// told notes that clients have a token of another history than before.
func (x *world) told() {
	x.loss.mu.Lock()
	defer x.loss.mu.Unlock()
	x.loss.told = true
}

// judgeLoss holds the service to what it promises where Redis does not: each loss is
// told, and clients learn from when on something may be missing.
func (x *world) judgeLoss(missing []*outcome) {
	l := &x.loss
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.times {
		for _, p := range t.tellers {
			if l.found.Before(t.to) && !p.gone() {
				x.judge.wrong("Redis went back at %s to %s, and %s, which knew of later events, has told nobody", t.to.Format(clock), t.from.Format(clock), p.name)
			}
		}
	}
	for _, o := range missing {
		if l.dated && o.acked.Before(l.since) {
			x.judge.wrong("%s was answered at %s and is not there, and clients are told that data may be missing since %s", o.name(), o.acked.Format(clock), l.since.Format(clock))
		}
	}
}

const clock = "15:04:05.000"

// judgeBank: of what was captured the bank has paid nothing twice. Whoever has accepted
// a loss has compared before; so it is asked until then.
func (x *world) judgeBank() {
	captured := map[string]int64{}
	for _, o := range x.judge.wants {
		of := o
		if o.Kind == "capture" {
			of = x.judge.creates[o.Of]
		}
		if o.asked && (o.Kind == "capture" || o.Kind == "create" && o.Now) && (!o.known || o.status < 300) {
			captured[of.account()] += o.Minor
		}
	}
	b := x.payer
	b.mu.Lock()
	defer b.mu.Unlock()
	paid := map[string]int64{}
	for id, m := range b.paid {
		paid[b.of[id]] += int64(m.Minor)
	}
	for account, sum := range paid {
		if sum > captured[account] {
			x.judge.wrong("account %s was paid %s, and no more than %s was captured: something was paid twice", account, ledger.Money(sum), ledger.Money(captured[account]))
		}
	}
}

// mayPay holds workers to it that nothing is paid while a loss is not accepted. What
// was begun before is carried on with.
func (x *world) mayPay(p *process, payout string, first time.Time) {
	const under = 30 * time.Second // way
	since, waits := x.loss.undecided()
	if last, _ := x.loss.back(); waits && !p.hurt() && first.After(last) && x.wire.now().Sub(since) > under {
		x.judge.wrong("%s asks the bank for %s, while a loss waits to be accepted", p.name, payout)
	}
}
