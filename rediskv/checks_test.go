package rediskv_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
	"tollgate/rediskv/testkit"
)

// lived is an organization in which everything has happened that a check compares.
type lived struct {
	*fixture
	t        testing.TB
	c        redis.UniversalClient
	of       string // what its keys begin with
	account  string
	endpoint string
	export   string
	open     *tollgate.Payment // authorized
	part     *tollgate.Payment // captured in part, and refunded in part
	whole    *tollgate.Payment // captured at once, and to be paid
	payout   string            // paid
}

func newLived(t testing.TB, layout rediskv.Layout) *lived {
	t.Helper()
	f := newFixture(t)
	must(t, f.WriteLayout(t.Context(), layout))
	f.limited(t, `{"budgets":[{"window":"month","currency":"EUR","amount":"9000.00","per":"merchant_account"}],"frequency":[{"window":"month","count":5000,"per":"payee"}]}`)
	f.MerchantAccount(t)
	l := &lived{fixture: f, t: t, account: f.Config.MerchantAccounts[0].ID, endpoint: f.endpoint(t).ID}
	f.Clock.Advance(2 * rediskv.Skew)
	l.part = f.Pay(t, eur(1000), tollgate.CaptureManual)
	must(t, f.Capture(t.Context(), l.part.ID, 400, false))
	must(t, f.GiveBack(t.Context(), l.part.ID, 100, false))
	f.Pay(t, eur(700), tollgate.CaptureAutomatic)
	f.days(5)
	f.mustSettle(t)
	l.payout = *f.payouts(t)[0].PayoutID
	l.whole, l.open = f.Pay(t, eur(500), tollgate.CaptureAutomatic), f.Pay(t, eur(300), tollgate.CaptureManual)
	f.fanOut(t, "a")
	f.record(t, f.take(t, 1)[0], succeeded)
	e, err := f.newExport(t)
	must(t, err)
	l.export = e.ID
	var events string
	l.c, events = f.raw(t)
	l.of = strings.TrimSuffix(events, ":events")
	return l
}

// do sends a command to Redis; key follows the organization's, or with a colon in
// front the partition's. What it writes is a mistake and no damage: it has no checksum.
func (l *lived) do(command, key string, args ...any) any {
	l.t.Helper()
	if strings.HasPrefix(command, "H") && command != "HGET" && record.KindOf(l.key(key)) != nil {
		must(l.t, l.c.HSet(l.t.Context(), l.key(key), record.Field, record.Format).Err())
	}
	if command == "SET" {
		text, _ := args[0].(string)
		args[0] = sealedText.ReplaceAllString(text, `{"$$":"1"`)
	}
	all := append([]any{command, l.key(key)}, args...)
	reply, err := l.c.Do(l.t.Context(), all...).Result()
	if err != nil {
		l.t.Fatal(all, err)
	}
	return reply
}

func (l *lived) key(name string) string {
	if part, ok := strings.CutPrefix(name, ":"); ok {
		tag, _, _ := strings.Cut(l.of, ":")
		return tag + ":" + part
	}
	if name == "" {
		return l.of
	}
	return l.of + ":" + name
}

// txn is the member of the first transaction of a payment that is of a type.
func (l *lived) txn(payment string, kind tollgate.TransactionType) string {
	l.t.Helper()
	for _, x := range l.allTransactions(l.t, ledger.TransactionQuery{PaymentID: payment, Limit: 100}) {
		if x.Type == kind {
			return testkit.TransactionOf(l.t, l.c, l.space(), x.ID).Member()
		}
	}
	l.t.Fatalf("%s has no %s", payment, kind)
	return ""
}

func (l *lived) space() rediskv.Space { return l.Space(l.Caller.Organization) }

// authorized is the member of the open payment's authorization.
func (l *lived) authorized() string { return l.txn(l.open.ID, tollgate.TransactionAuthorization) }

// setTxn writes a field of the transaction of a member of an index, and getTxn reads one.
func (l *lived) setTxn(member, field, value string) {
	l.t.Helper()
	testkit.SetTransaction(l.t, l.c, l.space(), ledger.MemberAt(member, 0), field, value)
}

func (l *lived) getTxn(member, field string) string {
	l.t.Helper()
	return testkit.TransactionField(l.t, l.c, l.space(), ledger.MemberAt(member, 0), field)
}

// delivery is the id of one that waits.
func (l *lived) waiting() string {
	l.t.Helper()
	ids, err := l.c.ZRange(l.t.Context(), l.key(l.endpoint+":queue"), 0, 0).Result()
	if err != nil || len(ids) == 0 {
		l.t.Fatal(ids, err)
	}
	return ids[0]
}

// pinged is the id of a ping that has arrived.
func (l *lived) pinged() (delivery string) {
	l.t.Helper()
	p, err := tollgate.PingWebhook(l.NewID, l.Origin(l.Caller), l.webhook(l.t, l.endpoint))
	must(l.t, err)
	_, err = l.CommitPing(l.t.Context(), l.Caller, nil, p, rediskv.Answer{Status: 202})
	must(l.t, err)
	id := tollgate.DeliveryOf(p.Event.ID, l.endpoint)
	for delivery == "" {
		for _, one := range l.take(l.t, 1) {
			if l.record(l.t, one, succeeded); one.DeliveryID == id {
				delivery = id
			}
		}
	}
	return delivery
}

// field is the name of a field that ends so.
func (l *lived) field(key, end string) string {
	l.t.Helper()
	names, err := l.c.HKeys(l.t.Context(), l.key(key)).Result()
	must(l.t, err)
	for _, name := range names {
		if strings.HasSuffix(name, end) {
			return name
		}
	}
	l.t.Fatalf("%s has %v", key, names)
	return ""
}

// entry is the place of the last entry of a log.
func (l *lived) entry(log string, back int64) string {
	l.t.Helper()
	last, err := l.c.XRevRangeN(l.t.Context(), l.key(log), "+", "-", back).Result()
	must(l.t, err)
	return last[back-1].ID
}

var sealedText = regexp.MustCompile(`^\{"\$":"1;;[0-9a-f]{8}"`)

type breaking struct {
	name     string
	kind     consistency.FindingKind
	repaired bool
	do       func(*lived)
}

// gone is what can happen in the layout Together alone.
const gone = "all of a payment's transactions are gone"

// breakings put each kind of inconsistency into Redis by hand.
var breakings = []breaking{
	{"a payment's hash is not readable", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", l.open.ID, "amt", "x") }},
	{"a payment is gone", consistency.FindingPayment, false, func(l *lived) { l.do("DEL", l.open.ID) }},
	{"a capture has another amount", consistency.FindingPayment, false, func(l *lived) {
		l.setTxn(l.txn(l.whole.ID, tollgate.TransactionCapture), "amt", "499")
	}},
	{"captured and released are exchanged", consistency.FindingPayment, false, func(l *lived) { l.do("HSET", l.part.ID, "capd", "300", "reld", "100") }},
	{"refunded is another amount", consistency.FindingPayment, false, func(l *lived) { l.do("HSET", l.part.ID, "rfd", "99") }},
	{"fees are another amount", consistency.FindingPayment, false, func(l *lived) { l.do("HSET", l.part.ID, "fee", "1") }},
	{"an authorization says another status", consistency.FindingPayment, false, func(l *lived) {
		m := l.authorized()
		l.setTxn(m, "st", "captured")
		l.do("ZADD", "txns:captured", fmt.Sprint(l.do("ZSCORE", "txns:"+l.account, m)), m)
		l.do("ZREM", "txns:authorized", m)
	}},
	{"a payment does not know its transaction", consistency.FindingPayment, false, func(l *lived) {
		if m := l.txn(l.part.ID, tollgate.TransactionRefund); ledger.MemberAt(m, 0).Shared {
			l.do("HINCRBY", l.part.ID, "num", -1)
		} else {
			l.do("LREM", l.part.ID+":txns", 1, m)
		}
	}},
	{"a payment's transaction is gone", consistency.FindingPayment, false, func(l *lived) {
		testkit.DropTransaction(l.t, l.c, l.space(), ledger.MemberAt(l.txn(l.part.ID, tollgate.TransactionRefund), 0))
	}},
	{gone, consistency.FindingPayment, false, func(l *lived) {
		for _, x := range l.allTransactions(l.t, ledger.TransactionQuery{PaymentID: l.part.ID, Limit: 100}) {
			must(l.t, l.c.Del(l.t.Context(), ledger.Indexed{ID: x.ID, Shared: true}.Place(l.space()).Key).Err())
		}
	}},
	{"a capture's record is gone", consistency.FindingPayment, false, func(l *lived) {
		m := ledger.MemberAt(l.txn(l.part.ID, tollgate.TransactionCapture), 0)
		if id := l.getTxn(m.Member(), "cap"); m.Shared {
			must(l.t, l.c.HDel(l.t.Context(), l.space().Parts(id), m.Place(l.space()).Name+rediskv.Document).Err())
		} else {
			l.do("DEL", id)
		}
	}},
	{"the deadline that scripts read is another", consistency.FindingPayment, false, func(l *lived) { l.do("HSET", l.open.ID, "due", "1800000000000") }},
	{"a transition has no event", consistency.FindingEvent, false, func(l *lived) { l.do("HINCRBY", l.open.ID, "v", 1) }},
	{"an event's payment does not know it", consistency.FindingEvent, false, func(l *lived) {
		ticket := fmt.Sprint(l.do("GET", tollgate.TicketOf(l.open.ID)))
		i := strings.Index(ticket, `"event_ids":["evt_`)
		at := i + len(`"event_ids":["evt_`)
		l.do("SET", tollgate.TicketOf(l.open.ID), ticket[:at]+strings.Repeat("0", 26)+ticket[at+26:])
	}},
	{"an event is taken out of the log", consistency.FindingSequence, false, func(l *lived) { l.do("XDEL", "events", l.entry("events", 3)) }},
	{"an event is taken off the end of the log", consistency.FindingSequence, false, func(l *lived) { l.do("XDEL", "events", l.entry("events", 1)) }},
	{"an event is in the log twice", consistency.FindingSequence, false, func(l *lived) {
		last, err := l.c.XRevRangeN(l.t.Context(), l.key("events"), "+", "-", 1).Result()
		must(l.t, err)
		args := []any{"*"}
		for name, value := range last[0].Values {
			args = append(args, name, value)
		}
		l.do("XADD", "events", args...)
	}},
	{"an audit entry is taken out", consistency.FindingSequence, false, func(l *lived) { l.do("XDEL", "audit", l.entry("audit", 2)) }},
	{"the counter of audit entries is behind", consistency.FindingSequence, false, func(l *lived) { l.do("HINCRBY", "seq", "audit", -1) }},
	{"a sum that is to be paid is too much", consistency.FindingPayable, true, func(l *lived) { l.do("HINCRBY", l.account+":payable", l.field(l.account+":payable", "/c"), 7) }},
	{"a count of captures is too much", consistency.FindingPayable, true, func(l *lived) { l.do("HINCRBY", l.account+":payable", l.field(l.account+":payable", "/n"), 1) }},
	{"refunds that are kept of it were made up", consistency.FindingPayable, true, func(l *lived) {
		l.do("HSET", l.account+":refunds", strings.TrimSuffix(l.field(l.account+":payable", "/c"), "c"), 3)
	}},
	{"a group is neither to be paid nor in a payout", consistency.FindingPayable, false, func(l *lived) { l.do("DEL", l.account+":payable") }},
	{"a group is to be paid and in a payout", consistency.FindingPayable, false, func(l *lived) {
		groups := strings.Fields(fmt.Sprint(l.do("HGET", l.payout, "grp")))
		group := "2026-12-24/EUR/" + groups[0] + "/"
		l.do("HSET", l.account+":payable", group+"c", groups[1], group+"f", groups[2], group+"n", groups[3])
	}},
	{"a payout is not what was recomputed", consistency.FindingPayout, false, func(l *lived) {
		l.do("HSET", l.payout, "sum", "2"+l.field(l.payout, "sum"))
	}},
	{"a payout pays another sum", consistency.FindingPayout, false, func(l *lived) {
		groups := strings.Fields(fmt.Sprint(l.do("HGET", l.payout, "grp")))
		groups[1] = "9999"
		l.do("HSET", l.payout, "grp", strings.Join(groups, " "), "sum", strings.Join(groups, " "))
	}},
	{"a payout's transaction says another status", consistency.FindingPayout, false, func(l *lived) { l.do("HSET", l.payout, "st", "failed") }},
	{"a payout is gone", consistency.FindingPayout, false, func(l *lived) { l.do("DEL", l.payout) }},
	{"what is paid is not settled", consistency.FindingPayout, false, func(l *lived) {
		m := l.txn(l.part.ID, tollgate.TransactionCapture)
		l.do("ZADD", "txns:available", fmt.Sprint(l.do("ZSCORE", "txns:"+l.account, m)), m)
		l.do("ZREM", "txns:settled", m)
		l.setTxn(m, "st", "available")
	}},
	{"a budget has counted too much", consistency.FindingCounter, true, func(l *lived) { l.do("INCRBY", "use:"+fmt.Sprint(l.do("HGET", l.open.ID, "use0")), 5) }},
	{"a frequency has counted too little", consistency.FindingCounter, true, func(l *lived) { l.do("DECRBY", "use:"+fmt.Sprint(l.do("HGET", l.open.ID, "use1")), 1) }},
	{"a counter is gone before its window ends", consistency.FindingCounter, true, func(l *lived) { l.do("DEL", "use:"+fmt.Sprint(l.do("HGET", l.open.ID, "use0"))) }},
	{"an event was never delivered", consistency.FindingDelivery, false, func(l *lived) {
		id := l.waiting()
		for _, key := range []string{":dlv", ":open", ":queue"} {
			l.do("ZREM", l.endpoint+key, id)
		}
		l.do("DEL", id)
	}},
	{"an event has two deliveries", consistency.FindingDelivery, false, func(l *lived) {
		id := l.waiting()
		l.do("ZADD", l.endpoint+":dlv", fmt.Sprint(l.do("ZSCORE", l.endpoint+":dlv", id)), "dlv_other")
	}},
	{"a delivery is of another event", consistency.FindingDelivery, false, func(l *lived) {
		key := l.key(l.waiting())
		testkit.SetField(l.t, l.c, key, "evt", l.NewID(tollgate.PrefixEvent))
		testkit.SetField(l.t, l.c, key, record.Field, record.Format)
	}},
	{"a delivery that waits is not queued", consistency.FindingQueue, true, func(l *lived) { l.do("ZREM", l.endpoint+":queue", l.waiting()) }},
	{"a delivery that is done is queued", consistency.FindingQueue, true, func(l *lived) {
		id := l.waiting()
		l.do("HSET", id, "st", "failed", "n", "1", "lat", "1800000000000", "cat", "1800000000000")
	}},
	{"a delivery that is gone is queued", consistency.FindingQueue, true, func(l *lived) {
		l.do("ZADD", l.endpoint+":queue", 5, "dlv_gone")
		l.do("ZADD", l.endpoint+":open", 5, "dlv_gone")
	}},
	{"an endpoint with deliveries is not ready", consistency.FindingQueue, true, func(l *lived) { l.do("ZREM", ":ready", l.Caller.Organization+"/"+l.endpoint) }},
	{"an endpoint that is not there is ready", consistency.FindingQueue, true, func(l *lived) { l.do("ZADD", ":ready", 1, l.Caller.Organization+"/we_gone") }},
	{"the fan-out knows an endpoint that is not there", consistency.FindingIndex, true, func(l *lived) { l.do("HSET", "webhooks", "we_gone", `{"status":"active"}`) }},
	{"the fan-out knows that an endpoint wants something else", consistency.FindingIndex, true, func(l *lived) {
		l.do("HSET", "webhooks", l.endpoint, `{"status":"active","event_types":["payout.paid"],"merchant_account_ids":null}`)
	}},
	{"the fan-out does not know an endpoint", consistency.FindingIndex, false, func(l *lived) { l.do("HDEL", "webhooks", l.endpoint) }},
	{"a deadline is not queued", consistency.FindingQueue, true, func(l *lived) { l.do("ZREM", ":due", l.Caller.Organization+"/"+l.open.ID) }},
	{"a deadline is queued at another time", consistency.FindingQueue, true, func(l *lived) { l.do("ZADD", ":due", 5, l.Caller.Organization+"/"+l.open.ID) }},
	{"a payment that has ended is queued", consistency.FindingQueue, true, func(l *lived) { l.do("ZADD", ":due", 5, l.Caller.Organization+"/"+l.whole.ID) }},
	{"a payment that is not there is queued", consistency.FindingQueue, true, func(l *lived) { l.do("ZADD", ":due", 5, l.Caller.Organization+"/pay_gone") }},
	{"an account is not looked at when it is to be paid", consistency.FindingQueue, true, func(l *lived) { l.do("ZREM", ":cutoffs", l.Caller.Organization+"/"+l.account) }},
	{"an account that is not there is looked at", consistency.FindingQueue, true, func(l *lived) { l.do("ZADD", ":cutoffs", 5, l.Caller.Organization+"/ma_gone") }},
	{"a payout that is done is carried on", consistency.FindingQueue, true, func(l *lived) { l.do("ZADD", ":payouts", 5, l.Caller.Organization+"/"+l.payout) }},
	{"a payout is not carried on", consistency.FindingQueue, true, func(l *lived) {
		l.days(5)
		for p := range l.Partitions() {
			due, err := l.DueAccounts(l.t.Context(), p, 10)
			must(l.t, err)
			for _, d := range due {
				_, err := l.CloseDays(l.t.Context(), d.Organization, d.ID)
				must(l.t, err)
			}
		}
		l.do("DEL", ":payouts")
	}},
	{"an export that waits is not among the unfinished", consistency.FindingIndex, true, func(l *lived) { l.do("SREM", "exports", l.export) }},
	{"an export that is gone is unfinished", consistency.FindingIndex, true, func(l *lived) { l.do("SADD", "exports", "exp_gone") }},
	{"no worker is told of an export", consistency.FindingQueue, true, func(l *lived) { l.do("DEL", ":exports") }},
	{"an activation that is not there is to come", consistency.FindingQueue, true, func(l *lived) { l.do("ZADD", ":activations", 5, l.Caller.Organization+"/act_gone") }},
	{"a payment is missing from its status' list", consistency.FindingIndex, true, func(l *lived) { l.do("ZREM", "txns:authorized", l.authorized()) }},
	{"a transaction is behind all others in its status' list", consistency.FindingIndex, true, func(l *lived) {
		l.do("ZADD", "txns:settled", "1e22", l.txn(l.part.ID, tollgate.TransactionCapture))
	}},
	{"a payment is behind all others in its account's list", consistency.FindingIndex, true, func(l *lived) { l.do("ZADD", "txns:"+l.account, "1e22", l.authorized()) }},
	{"a payment is behind all others in its status' list", consistency.FindingIndex, true, func(l *lived) { l.do("ZADD", "txns:authorized", "1e22", l.authorized()) }},
	{"a payment is missing from every list", consistency.FindingIndex, true, func(l *lived) {
		m := l.authorized()
		for _, key := range []string{"txns:authorized", "txns:" + l.account} {
			l.do("ZREM", key, m)
		}
	}},
	{"a transaction is missing from its account's list", consistency.FindingIndex, true, func(l *lived) { l.do("ZREM", "txns:"+l.account, l.txn(l.part.ID, tollgate.TransactionRefund)) }},
	{"a transaction is missing from its status' list", consistency.FindingIndex, true, func(l *lived) { l.do("ZREM", "txns:pending", l.txn(l.whole.ID, tollgate.TransactionCapture)) }},
	{"a transaction is in another status' list, too", consistency.FindingIndex, true, func(l *lived) {
		m := l.txn(l.whole.ID, tollgate.TransactionCapture)
		l.do("ZADD", "txns:settled", fmt.Sprint(l.do("ZSCORE", "txns:"+l.account, m)), m)
	}},
	{"postings are gone", consistency.FindingIndex, true, func(l *lived) {
		l.post(l.t)
		for _, key := range scanKeys(l.t, l.c, l.of+":postings:*") {
			must(l.t, l.c.Del(l.t.Context(), key).Err())
		}
	}},
	{"postings have another tag", consistency.FindingIndex, true, func(l *lived) {
		l.post(l.t)
		list := scanKeys(l.t, l.c, l.of+":postings:0:*")[0]
		must(l.t, l.c.SetRange(l.t.Context(), list, 5, "??").Err())
	}},
	{"postings say another time", consistency.FindingIndex, true, func(l *lived) {
		l.post(l.t)
		l.do("SET", "postings", strings.Replace(l.do("GET", "postings").(string), `"first":1`, `"first":9`, 1))
	}},
	{"a list has a transaction that is not there", consistency.FindingIndex, true, func(l *lived) { l.do("ZADD", "txns:settled", 123, "gone") }},
	{"an account's list has another's", consistency.FindingIndex, true, func(l *lived) {
		m := l.txn(l.whole.ID, tollgate.TransactionCapture)
		l.do("ZADD", "txns:"+l.Config.MerchantAccounts[1].ID, fmt.Sprint(l.do("ZSCORE", "txns:"+l.account, m)), m)
	}},
	{"a list has a transaction in another place", consistency.FindingIndex, true, func(l *lived) { l.do("ZADD", "txns:pending", 3, l.txn(l.whole.ID, tollgate.TransactionCapture)) }},
	{"a revision of grants is no number", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", "grants", "v", "\xb1") }},
	{"a revision of a grant is no number", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", l.Config.Grants[0].ID, "v", "q") }},
	{"a revision of endpoints is no number", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", "webhooks", "v", "-1") }},
	{"a counter of events is no number", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", "seq", "event", "x") }},
	{"a time of damage is no number", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", "damaged", "payment/pay_1", "01") }},
	{"the room of exports is no sum", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", "exports:sizes", "all", "12", "exp_1", "5", "exp_2", "6") }},
	{"the list of grants has another client", consistency.FindingIndex, false, func(l *lived) { l.do("HSET", "grants", l.Config.Grants[0].ID, "cli_other") }},
	{"the list of grants has one that is not there", consistency.FindingIndex, false, func(l *lived) { l.do("HSET", "grants", "grt_gone", "cli_other") }},
	{"a delivery was made for an unknown reason", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", l.waiting(), "trig", "schedul%") }},
	{"a delivery has more attempts in a run than in all", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", l.waiting(), "run", "9") }},
	{"a ping that is done has made attempts that are no number", consistency.FindingDamaged, false, func(l *lived) { l.do("HSET", l.pinged(), "run", "\x01") }},
	{"a listed delivery is gone", consistency.FindingDelivery, false, func(l *lived) {
		last := l.do("ZRANGE", l.endpoint+":dlv", 0, 0).([]any)[0].(string)
		l.do("ZADD", l.endpoint+":dlv", fmt.Sprint(l.do("ZSCORE", l.endpoint+":dlv", last)), last[:len(last)-1]+"\x01")
		l.do("ZREM", l.endpoint+":dlv", last)
	}},
	{"a delivery is behind all events", consistency.FindingDelivery, false, func(l *lived) {
		first := l.do("ZRANGE", l.endpoint+":dlv", 0, 0).([]any)[0].(string)
		l.do("ZADD", l.endpoint+":dlv", "1e200", first)
	}},
	{"the set of clients has one that is not there", consistency.FindingIndex, false, func(l *lived) { l.do("SADD", "clients", "cli_gone") }},
	{"the list of perimeters has one that is not there", consistency.FindingIndex, false, func(l *lived) { l.do("SADD", "perimeters", "per_gone@1") }},
	{"a file of no export takes up room", consistency.FindingIndex, false, func(l *lived) { l.do("ZADD", "exports:files", "1796181065946", "exp_gone") }},
	{"a file takes up room for half a millisecond", consistency.FindingIndex, false, func(l *lived) { l.do("ZADD", "exports:files", "1796181065946.5", l.export) }},
	{"a preview of an export is another one", consistency.FindingDamaged, false, func(l *lived) {
		l.do("HSET", l.export, "prev", `[{"amount":"9.00"}]`, "psum", `19:00000000`)
	}},
	{"an export is out of order", consistency.FindingIndex, false, func(l *lived) { l.do("ZADD", "exports:all", "3", l.export) }},
	{"the list of all exports has one that is not there", consistency.FindingIndex, false, func(l *lived) {
		l.do("ZADD", "exports:all", "0", l.NewID(tollgate.PrefixExport))
	}},
	{"the fan-out has a member of another name", consistency.FindingIndex, true, func(l *lived) {
		known := l.do("HGET", "webhooks", l.endpoint).(string)
		l.do("HSET", "webhooks", l.endpoint, strings.Replace(known, "merchant_account_ids", "merchant_accoun|_ids", 1))
	}},
	{"an authorization was updated at another time", consistency.FindingPayment, false, func(l *lived) {
		l.setTxn(l.authorized(), "upd", fmt.Sprint(int64(l.open.UpdatedAt)+4))
	}},
	{"a capture was updated before it was made", consistency.FindingPayment, false, func(l *lived) {
		l.setTxn(l.txn(l.part.ID, tollgate.TransactionCapture), "upd", "1595585915626") // it stands in a payout
	}},
	{"an export is not in the list of all", consistency.FindingIndex, true, func(l *lived) {
		l.do("ZADD", "exports:all", "0", tollgate.FirstID(tollgate.PrefixExport, l.Now().Add(-31*24*time.Hour)))
		l.do("ZREM", "exports:all", l.export)
	}},
	{"a delivery is at the place of another event", consistency.FindingDelivery, false, func(l *lived) {
		first := l.do("ZRANGE", l.endpoint+":dlv", 0, 0).([]any)[0].(string)
		l.do("ZINCRBY", l.endpoint+":dlv", "100", first)
	}},
	{"the last of a list is between two places", consistency.FindingIndex, true, func(l *lived) {
		last := l.do("ZRANGE", "txns:pending", -1, -1).([]any)[0].(string)
		l.do("ZADD", "txns:pending", fmt.Sprint(l.do("ZSCORE", "txns:pending", last))+".0001", last)
	}},
	{"the last delivery is between two places", consistency.FindingDelivery, false, func(l *lived) {
		last := l.do("ZRANGE", l.endpoint+":dlv", -1, -1).([]any)[0].(string)
		l.do("ZADD", l.endpoint+":dlv", fmt.Sprint(l.do("ZSCORE", l.endpoint+":dlv", last))+".0001", last)
	}},
	{"the first of a list is below all places", consistency.FindingIndex, true, func(l *lived) {
		first := l.do("ZRANGE", "txns:authorized", 0, 0).([]any)[0].(string)
		l.do("ZADD", "txns:authorized", "-0.5", first)
	}},
	{"a payout's own list is empty", consistency.FindingIndex, true, func(l *lived) { l.do("DEL", l.payout+":txn") }},
	{"a group lacks a member", consistency.FindingIndex, true, func(l *lived) {
		m := l.txn(l.whole.ID, tollgate.TransactionCapture)
		l.do("ZREM", l.account+":pay:EUR:"+l.getTxn(m, "av"), m)
	}},
	{"a partition does not name an organization", consistency.FindingIndex, true, func(l *lived) { l.do("SREM", ":organizations", l.Caller.Organization) }},
	{"a partition names an organization that is not there", consistency.FindingIndex, true, func(l *lived) {
		must(l.t, l.c.SAdd(l.t.Context(), rediskv.OrganizationsKey(l.Space("org_gone").Partition), "org_gone").Err())
	}},
	{"a partition names an organization of another", consistency.FindingIndex, false, func(l *lived) {
		must(l.t, l.c.SAdd(l.t.Context(), rediskv.OrganizationsKey((l.Space("org_gone").Partition+1)%l.Partitions()), "org_gone").Err())
	}},
	{"an account that is named is not there", consistency.FindingIndex, false, func(l *lived) {
		l.do("HSET", "", "accounts", fmt.Sprint(l.do("HGET", "", "accounts"))+" ma_gone")
	}},
	{"a request's payment is not there", consistency.FindingIdempotency, false, func(l *lived) {
		keys := scanKeys(l.t, l.c, l.of+":idem:*")
		text, err := l.c.Get(l.t.Context(), keys[0]).Result()
		must(l.t, err)
		id, _, _ := strings.Cut(text[strings.Index(text, `"id":"pay_`)+len(`"id":"`):], `"`)
		must(l.t, l.c.Set(l.t.Context(), keys[0], strings.ReplaceAll(text, id, l.NewID(tollgate.PrefixPayment)), time.Hour).Err())
	}},
}

// One bit can make an entry of a list no identifier at all: that is found, like others.
func TestCheckFindsWhatIsNoIdentifier(t *testing.T) {
	for _, layout := range layouts {
		l := newLived(t, layout)
		last := l.do("ZRANGE", "txns:authorized", -1, -1).([]any)[0].(string)
		l.do("ZADD", "txns:authorized", fmt.Sprint(l.do("ZSCORE", "txns:authorized", last)), last[:20]+":"+last[21:])
		if len(testkit.Findings(t, l.Store)) == 0 {
			t.Errorf("layout %d: nobody finds it", layout)
		}
	}
}

// Each inconsistency is found, as its kind; what is right can be derived of some, and
// those are found no more after a repair.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	t.Run("nothing", func(t *testing.T) {
		for _, layout := range layouts {
			testkit.Consistent(t, newLived(t, layout).Store)
		}
	})
	seen := map[consistency.FindingKind]bool{}
	for _, b := range breakings {
		seen[b.kind] = true
		for _, layout := range layouts {
			if layout == rediskv.Apart && (b.name == gone || !slices.Contains(inBoth, b.kind)) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", b.name, layout), func(t *testing.T) { b.found(t, layout) })
		}
	}
	for _, kind := range consistency.FindingKinds {
		if !seen[kind] {
			t.Errorf("nothing is of kind %s", kind)
		}
	}
}

// inBoth are kinds of findings that are made of transactions.
var inBoth = []consistency.FindingKind{consistency.FindingPayment, consistency.FindingIndex, consistency.FindingPayout, consistency.FindingPayable}

func (b breaking) found(t *testing.T, layout rediskv.Layout) {
	l := newLived(t, layout)
	b.do(l)
	found := testkit.Findings(t, l.Store)
	var of []checks.Finding
	for _, f := range found {
		t.Logf("%s: %s %s: %s [%s]", f.Kind, f.Object, f.ID, f.Message, f.Repair)
		if f.Kind == b.kind {
			of = append(of, f)
		}
	}
	if len(of) == 0 {
		t.Fatalf("no finding of kind %s among %d", b.kind, len(found))
	}
	if b.repaired {
		l.repaired(found)
		return
	}
	for _, f := range of {
		if f.Repair != "" {
			t.Errorf("%q is no repair of %s", f.Repair, f.Message)
		}
	}
}

// repaired repairs all findings, and finds nothing then; each repair is in the audit
// record.
func (l *lived) repaired(found []checks.Finding) {
	l.t.Helper()
	for rounds := 0; len(found) > 0; rounds++ {
		if rounds == 3 {
			l.t.Fatalf("%d findings after %d repairs: %v", len(found), rounds, found)
		}
		done := 0
		for _, f := range found {
			before := fmt.Sprint(l.do("XLEN", "audit"))
			switch err := l.Repair(l.t.Context(), f); {
			case err == nil && f.Organization == l.Caller.Organization:
				if after := fmt.Sprint(l.do("XLEN", "audit")); after == before {
					l.t.Errorf("%s: no audit entry", f.Message)
				}
				if left := fmt.Sprint(l.do("HLEN", "damaged")); left == "0" { // the log may name what was
					l.t.Errorf("%s: it is forgotten that something was wrong", f.Message)
				}
				done++
			case err == nil:
				done++
			case !errors.Is(err, rediskv.ErrConflict) && !errors.Is(err, checks.ErrNotDerivable): // another repair has done it, or comes first
				l.t.Errorf("%s: %v", f.Message, err)
			}
		}
		if done == 0 {
			l.t.Fatalf("nothing was repaired of %v", found)
		}
		found = testkit.Findings(l.t, l.Store)
	}
}

// A repair compares what was read: of a payment that has gone on it writes nothing.
func TestRepairComparesWhatItRead(t *testing.T) {
	l := newLived(t, rediskv.Together)
	l.do("ZREM", ":due", l.Caller.Organization+"/"+l.open.ID)
	found := testkit.Findings(t, l.Store)
	must(t, l.Capture(t.Context(), l.open.ID, 300, true))
	if err := l.Repair(t.Context(), found[0]); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("repaired: %v", err)
	}
	l.do("INCRBY", "use:"+fmt.Sprint(l.do("HGET", l.open.ID, "use0")), 5)
	found = testkit.Findings(t, l.Store)
	l.Pay(t, eur(100), tollgate.CaptureManual)
	if err := l.Repair(t.Context(), found[0]); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("repaired: %v", err)
	}
	l.repaired(testkit.Findings(t, l.Store))
}

// While everything happens at once, nothing is found that is not wrong.
func TestCheckOfALiveSystem(t *testing.T) {
	t.Parallel()
	l := newLived(t, rediskv.Together)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			p := l.Pay(t, eur(100), tollgate.CaptureManual)
			_ = l.Capture(context.WithoutCancel(ctx), p.ID, 40, n%2 == 0)
			_ = l.GiveBack(context.WithoutCancel(ctx), p.ID, 10, false)
			if n%3 == 0 {
				_ = l.Move(context.WithoutCancel(ctx), p.ID, tollgate.TriggerCancel)
			}
			if n%20 == 0 {
				l.fanOut(t, "a")
			}
		}
	}()
	for range 3 {
		testkit.Consistent(t, l.Store)
	}
	stop()
	<-ended
	testkit.Consistent(t, l.Store)
}
