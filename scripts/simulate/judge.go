package simulate

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"tollgate/scripts/simulate/ledger"
	"tollgate/scripts/simulate/story"
)

// judge knows what was promised to everybody outside, and says what is wrong. It is
// the reference model: it shares no code with the product.
type judge struct {
	mu     sync.Mutex
	faults []string
	wants  []*outcome
	// creates are those that create a payment, by number.
	creates map[int]*outcome
	tailed  []string // ids of events, as the one who follows the log got them
	sealed  []sealed // checkpoints of audit records, as workers have logged them
}

// outcome is what became of a want, as its client knows it.
type outcome struct {
	story.Want
	asked bool // it was sent at least once
	known bool
	// excused: Redis may have forgotten it. sent and acked are when it was sent first and
	// answered.
	excused     bool
	sent, acked time.Time
	answer
	id string // of what was made
	// token is the one that was to be revoked.
	token string
}

// made says that it was carried out, and has to be there.
func (o *outcome) made() bool { return o.promised() && !o.excused }

// promised says that it was answered as carried out.
func (o *outcome) promised() bool {
	return o.known && (o.status < 300 || o.Kind == "create" && o.status == http.StatusForbidden)
}
func (o *outcome) name() string { return fmt.Sprintf("want-%d", o.Number) }

// account is that of a payment.
func (o *outcome) account() string {
	if o.Budget {
		return budgeted
	}
	return open
}

func newJudge() *judge { return &judge{creates: map[int]*outcome{}} }

func (j *judge) wrong(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.faults) < 20 {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

// delivered is told of every delivery that reached its receiver.
func (j *judge) delivered(x *world, to *receiver, event string, body []byte, h http.Header) {
	to.mu.Lock()
	defer to.mu.Unlock()
	// A secret that is on its way signs already.
	if len(to.secrets) > 0 && !x.rotating.Load() && !slices.ContainsFunc(to.secrets, func(s string) bool { return ledger.Signed(s, event, body, h) }) {
		j.wrong("%s got event %s, and none of its secrets has signed it", to.name, event)
	}
	to.said[event]++
	if before, ok := to.seen[event]; ok && !bytes.Equal(before, body) {
		j.wrong("%s got event %s twice, with other bytes: %s and %s", to.name, event, before, body)
	}
	to.seen[event] = body
}

// verdict compares what the service has with what was promised.
func (x *world) verdict(l ledger.Ledger) {
	j := x.judge
	asked := j.asked()
	l.HoldPayments(asked, j.wrong)
	l.HoldChanges(asked, j.wrong)
	l.HoldEvents(j.wrong)
	x.judgeFollower(l)
	got := map[string]map[string]string{}
	for name, to := range x.receivers {
		got[name] = map[string]string{}
		to.mu.Lock()
		for event, body := range to.seen {
			got[name][event] = string(body)
		}
		to.mu.Unlock()
	}
	l.HoldDeliveries(got, j.wrong)
	paid := x.paid(l)
	closed := x.wire.now().Add(7*time.Hour-time.Second).AddDate(0, 0, -1).Format("2006-01-02") // days end at 17:00
	l.HoldPayouts(paid, func(string) string { return closed }, j.wrong)
	x.judgeLoss(x.missing(l))
	x.judgeRevoked()
	x.judgeAudit()
	if x.loss.decided == 0 {
		x.judgeBank()
	}
}

// paid is what the bank has paid, without the payouts that Redis may have forgotten.
func (x *world) paid(l ledger.Ledger) map[string]int64 {
	x.payer.mu.Lock()
	defer x.payer.mu.Unlock()
	there := map[string]bool{}
	for _, p := range l.Payouts {
		there[p.ID] = true
	}
	last, _ := x.loss.back()
	paid := map[string]int64{}
	for id, amount := range x.payer.paid {
		if there[id] || x.payer.first[id].After(last) {
			paid[id] = amount.Minor
		}
	}
	return paid
}

// missing are the payments and captures that were promised and are not there.
func (x *world) missing(l ledger.Ledger) (list []*outcome) {
	there := map[string]bool{}
	for _, p := range l.Payments {
		there["create"+p.Reference] = true
	}
	for _, t := range l.Transactions {
		there[t.Type+t.Reference] = true
	}
	for _, o := range x.judge.wants {
		if (o.Kind == "create" || o.Kind == "capture") && o.promised() && !there[o.Kind+o.name()] {
			list = append(list, o)
		}
	}
	return list
}

// asked are the wants, as the ledger's judge has them.
func (j *judge) asked() (all []ledger.Asked) {
	ids := map[int]string{}
	for _, o := range j.wants {
		if o.Kind == "create" {
			ids[o.Number] = o.id
		}
	}
	for _, o := range j.wants {
		all = append(all, ledger.Asked{
			Name: o.name(), Kind: o.Kind, Of: ids[o.Of], Minor: o.Minor, Now: o.Now, Status: o.status, Known: o.known, Sent: o.asked, ID: o.id, Excused: o.excused,
		})
	}
	return all
}

// judgeFollower holds who follows the events to the whole log.
func (x *world) judgeFollower(l ledger.Ledger) {
	if x.plan.Untailed {
		return
	}
	j, tailed := x.judge, x.tailed(l)
	for i, e := range l.Events {
		if i >= len(tailed) || tailed[i] != e.ID {
			j.wrong("who follows the events did not get event %d, %s, when it was its turn", i+1, e.ID)
			return
		}
	}
	if len(tailed) > len(l.Events) {
		j.wrong("who follows the events got %d of %d", len(tailed), len(l.Events))
	}
}
