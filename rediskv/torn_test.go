package rediskv_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/testkit"
)

// everything is what an organization has, key by key, but for what is said of
// damage.
func (f *fixture) everything(t testing.TB) map[string]string {
	t.Helper()
	raw := rawClient(t, f.URL)
	all := map[string]string{}
	for _, key := range scanKeys(t, raw, "*"+f.Caller.Organization+"*") {
		if strings.HasSuffix(key, ":damaged") || strings.HasSuffix(key, ":events") || strings.HasSuffix(key, ":seq") || strings.Contains(key, ":op:") {
			continue
		}
		var value any
		switch kind := raw.Type(t.Context(), key).Val(); kind {
		case "string":
			value = raw.Get(t.Context(), key).Val()
		case "hash":
			value = raw.HGetAll(t.Context(), key).Val()
		case "list":
			value = raw.LRange(t.Context(), key, 0, -1).Val()
		case "set":
			value = raw.SMembersMap(t.Context(), key).Val()
		case "zset":
			value = raw.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		case "stream":
			value = raw.XRange(t.Context(), key, "-", "+").Val()
		default:
			t.Fatal(key, kind)
		}
		all[key] = fmt.Sprint(value)
	}
	return all
}

// spoil puts something that is no number where a script counts.
func spoil(t testing.TB, raw redis.UniversalClient, key, field string) (repair func()) {
	t.Helper()
	set := func(value string) {
		t.Helper()
		var err error
		if field == "" {
			err = raw.Set(t.Context(), key, value, redis.KeepTTL).Err()
		} else {
			err = raw.HSet(t.Context(), key, field, value).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var was string
	var err error
	if field == "" {
		was, err = raw.Get(t.Context(), key).Result()
	} else {
		was, err = raw.HGet(t.Context(), key, field).Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	set(was[:len(was)-1] + "x")
	return func() { set(was) }
}

// A number that a script counts on and that cannot be read keeps a payment, and an
// endpoint, from changing, as damage, and leaves nothing half written: no answer is remembered,
// no capture is there without its payment.
func TestDamagedCountsTearNothing(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"900.00","per":"merchant_account"}]}`)
	open := f.Pay(t, eur(1000), tollgate.CaptureManual)
	f.Pay(t, eur(700), tollgate.CaptureAutomatic)
	raw := rawClient(t, f.URL)
	key := func(end string) string {
		t.Helper()
		found := scanKeys(t, raw, "*"+f.Caller.Organization+end)
		if len(found) != 1 {
			t.Fatal(end, found)
		}
		return found[0]
	}
	payable, counter, seq := key("*:payable"), key(":use:*"), key(":seq")
	group := ""
	for _, name := range slices.Sorted(maps.Keys(raw.HGetAll(t.Context(), payable).Val())) {
		group, _ = strings.CutSuffix(name, "c")
		break
	}
	create := func(method tollgate.CaptureMethod) func() error {
		return func() error {
			a := f.MerchantAccount(t)
			ch, ans := f.Draft(t, a, eur(500), "shop.example", method)
			_, err := f.CreatePayment(t.Context(), f.Caller, f.Key(f.NewID("")), a, ch, ans)
			return err
		}
	}
	capture := func() error { return f.Capture(t.Context(), open.ID, 400, true) }
	endpoint := func() error {
		_, err := f.createWebhook(t, tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
			Object: "webhook_endpoint", ID: f.NewID(tollgate.PrefixWebhook), URL: "https://shop.example/hooks", Status: tollgate.WebhookActive,
		}})
		return err
	}
	for _, c := range []struct {
		what, key, field string
		does             func() error
	}{
		{"a capture, what was captured", payable, group + "c", capture},
		{"a capture, what fees there were", payable, group + "f", capture},
		{"a capture, how many there were", payable, group + "n", capture},
		{"a capture, the number of events", seq, "event", capture},
		{"a capture, the number of audit entries", seq, "audit", capture},
		{"an automatic payment, what was captured", payable, group + "c", create(tollgate.CaptureAutomatic)},
		{"an automatic payment, how many there were", payable, group + "n", create(tollgate.CaptureAutomatic)},
		{"a payment, its budget", counter, "", create(tollgate.CaptureManual)},
		{"a payment, the number of events", seq, "event", create(tollgate.CaptureManual)},
		{"a payment, the number of audit entries", seq, "audit", create(tollgate.CaptureManual)},
		{"an endpoint, the number of events", seq, "event", endpoint},
		{"an endpoint, the number of audit entries", seq, "audit", endpoint},
	} {
		repair := spoil(t, raw, c.key, c.field)
		before := f.everything(t)
		if err := c.does(); !rediskv.IsDamage(err) {
			t.Errorf("%s: %v", c.what, err)
		}
		after := f.everything(t)
		for key := range after {
			if before[key] != after[key] {
				t.Errorf("%s: %s is another", c.what, key)
			}
		}
		repair()
	}

	// What cannot be given back keeps nothing from its end.
	repair := spoil(t, raw, counter, "")
	if err := capture(); err != nil {
		t.Fatal(err)
	}
	if p, _ := f.Read(t, open.ID); p.Status != tollgate.Captured {
		t.Errorf("the payment is %s", p.Status)
	}
	repair()
	found := testkit.Findings(t, f.Store) // what was not given back
	if len(found) != 1 || found[0].Kind != consistency.FindingCounter {
		t.Fatalf("found: %v", found)
	}
	if err := f.Repair(t.Context(), found[0]); err != nil {
		t.Fatal(err)
	}
	f.audit(t)
}

// A transaction whose place cannot be read keeps its place in the lists, and what
// it belongs to moves on; where nobody knows the place, nothing is written.
func TestDamagedPlacesTearNothing(t *testing.T) {
	for _, layout := range layouts {
		t.Run(strconv.Itoa(int(layout)), func(t *testing.T) { damagedPlaces(t, layout) })
	}
}

func damagedPlaces(t *testing.T, layout rediskv.Layout) {
	f := newFixture(t)
	must(t, f.WriteLayout(t.Context(), layout))
	open := f.Pay(t, eur(1000), tollgate.CaptureManual)
	raw := rawClient(t, f.URL)
	find := func(end string) string {
		t.Helper()
		found := scanKeys(t, raw, "*"+f.Caller.Organization+":"+end)
		if len(found) != 1 {
			t.Fatal(end, found)
		}
		return found[0]
	}
	k := f.Space(f.Caller.Organization)
	authorization := testkit.TransactionOf(t, raw, k, tollgate.AuthorizationOf(open.ID))
	repair := spoil(t, raw, authorization.Place(k).Key, authorization.FieldPrefix()+"pos")
	if err := f.Capture(t.Context(), open.ID, 400, false); err != nil {
		t.Error(err)
	}
	index, member := find("txns:"+string(tollgate.PartiallyCaptured)), authorization.Member()
	place, err := raw.ZScore(t.Context(), index, member).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.ZRem(t.Context(), index, member).Err(); err != nil {
		t.Fatal(err)
	}
	before := f.everything(t)
	if err := f.Capture(t.Context(), open.ID, 600, true); !rediskv.IsDamage(err) {
		t.Error(err)
	}
	for key, value := range f.everything(t) {
		if before[key] != value {
			t.Errorf("%s is another", key)
		}
	}
	if err := raw.ZAdd(t.Context(), index, redis.Z{Score: place, Member: member}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := f.Capture(t.Context(), open.ID, 600, true); err != nil {
		t.Error(err)
	}
	repair()
	f.audit(t)

	p := f.begun(t)
	repair = spoil(t, raw, find(tollgate.PayoutTransactionOf(p.ID)), "pos")
	if err := f.endPayout(t.Context(), p, tollgate.PayoutOutcome{}); err != nil {
		t.Error(err)
	}
	repair()
	f.mustSettle(t)
	if paid := f.payout(t, p.ID); paid.Status != tollgate.PayoutStatusPaid {
		t.Errorf("the payout is %s", paid.Status)
	}
}
