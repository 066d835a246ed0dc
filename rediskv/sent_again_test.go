package rediskv_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/rules"
	"tollgate/rediskv/script"
)

// resend is a change whose reply is lost. Between its first and its second
// sending somebody else changes the same. arrange makes what is there before;
// act makes the change through the wire and says what is wrong with its outcome.
type resend struct {
	script, what string
	arrange      func(t *testing.T, f *fixture) (act func(through *fixture) error, between func())
}

// keyspace is all that Redis holds, lifetimes apart.
func keyspace(t *testing.T, c redis.UniversalClient) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range scanKeys(t, c, "*") {
		var value any
		var err error
		switch kind := c.Type(t.Context(), key).Val(); kind {
		case "string":
			value, err = c.Get(t.Context(), key).Result()
		case "hash":
			value, err = c.HGetAll(t.Context(), key).Result() // fmt sorts maps
		case "zset":
			value, err = c.ZRangeWithScores(t.Context(), key, 0, -1).Result()
		case "set":
			var members []string
			members, err = c.SMembers(t.Context(), key).Result()
			slices.Sort(members)
			value = members
		case "list":
			value, err = c.LRange(t.Context(), key, 0, -1).Result()
		case "stream":
			value, err = c.XRange(t.Context(), key, "-", "+").Result()
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[key] = fmt.Sprint(value)
	}
	return all
}

// TestScriptsSentAgain: go-redis sends a script again when its reply is lost, and
// whatever happened in between, a script that writes knows its own first run: it
// writes nothing more, and its outcome is that of the first. The second time the
// caller's grant is changed in between, too. The first time the caller may do no more
// after the first run: that is no reason to refuse it.
func TestScriptsSentAgain(t *testing.T) {
	t.Parallel()
	hashes := map[string]string{}
	for _, one := range script.All() {
		hashes[one.Name] = one.Hash()
	}
	tested := map[string]bool{}
	for i := range 2 * len(resends) {
		r, revoked := resends[i/2], i%2 == 1
		tested[r.script] = true
		t.Run(fmt.Sprintf("%s/%s/revoked=%t", r.script, strings.ReplaceAll(r.what, " ", "_"), revoked), func(t *testing.T) {
			server := redistest.Single(t)
			f := newFixtureAt(t, server.URL)
			raw := rawClient(t, server.URL)
			wire := redistest.Proxy(t, server.Addr)
			var after map[string]string
			watching := false
			through := f.with(t, rediskv.Options{URL: wire.URL, Observe: func(operation string, _ time.Duration, _ error) {
				if watching && operation == r.script {
					after = keyspace(t, raw)
					watching = false
				}
			}})
			act, between := r.arrange(t, f)
			wire.Reset()
			if !revoked {
				f.Caller.Rate = onlyOne(f.Caller, gcra.Writes)
				through.Caller.Rate = f.Caller.Rate
			}
			watching = true
			var before map[string]string
			lost := wire.SwallowReplyAfter("EVALSHA "+hashes[r.script], func() {
				between()
				if revoked {
					must(t, raw.HSet(t.Context(), scanKeys(t, raw, "*:"+f.Caller.Actor.GrantID)[0], "v", "99").Err())
				}
				before = keyspace(t, raw)
			})
			if err := act(through); err != nil {
				t.Errorf("the outcome is not the first one's: %v", err)
			}
			select {
			case <-lost:
			default:
				t.Fatal("no reply was lost")
			}
			sent, first := 0, ""
			for _, c := range wire.Sent() {
				if !strings.HasPrefix(c.Name, "EVAL") || c.Arg != hashes[r.script] {
					continue
				}
				if text := strings.Join(c.Args, " "); first == "" || text == first {
					first = text
					sent++
				}
			}
			if sent != 2 {
				t.Errorf("the script was sent %d times", sent)
			}
			for key := range maps.Keys(after) {
				if before[key] != after[key] {
					t.Errorf("the second run changed %s:\n%s\n%s", key, before[key], after[key])
				}
			}
			if len(before) == 0 || len(before) != len(after) {
				t.Errorf("%d keys before the second run, %d after it", len(before), len(after))
			}
		})
	}
	for name := range hashes {
		if writes(t, name) && !tested[name] && name != "heartbeat" { // of which the last run counts: it says what time it is
			t.Errorf("%s writes, and nothing says what happens when it is sent again", name)
		}
	}
}

// hashOf is by what name Redis knows a script.
func hashOf(name string) string {
	for _, one := range script.All() {
		if one.Name == name {
			return one.Hash()
		}
	}
	return ""
}

// writes reports whether a script calls anything that may write.
func writes(t *testing.T, name string) bool {
	t.Helper()
	var text []byte
	for _, file := range scriptFiles(t) {
		if filepath.Base(file) == name+".lua" {
			var err error
			if text, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if text == nil {
		t.Fatal(name)
	}
	_, body := splitHeader(string(text))
	reads := []string{"GET", "EXISTS", "HGET", "HMGET", "HGETALL", "HLEN", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "GETRANGE", "TYPE", "XLEN", "XPENDING", "XRANGE", "XREVRANGE", "granted", "turned_away", "answered", "earlier", "command"}
	for _, m := range regexp.MustCompile(`redis\.p?call\('?([^',]+)|(\w+)\(`).FindAllStringSubmatch(body, -1) {
		if called := m[1] + m[2]; !slices.Contains(reads, called) && !slices.Contains([]string{"ipairs", "find", "match", "max", "min", "place", "tonumber", "whole", "abs", "sub", "unpack", "up_to", "take", "part", "resume", "reaches", "listed", "more", "id_of", "floor", "byte", "posted_at", "first_posting", "postings_in", "content_digest", "sha1hex", "concat", "joined"}, called) {
			return true
		}
	}
	return false
}

// resends are all scripts that write.
var resends = slices.Concat(historyResends, keyringResends, auditResends, paymentResends, configResends, webhookResends, payoutResends, exportResends, logResends, postingResends, archiveResends, logsResends, coolResends, eraseResends)

// must is for what stands beside the change.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// rename changes the organization and an account.
func (f *fixture) rename(t *testing.T) {
	t.Helper()
	f.Config.Organization.Name += "!"
	f.Config.MerchantAccounts[0].Name += "!"
	_, err := f.ApplyConfig(t.Context(), f.Config, false)
	must(t, err)
}

var paymentResends = []resend{
	{"create_payment", "the payment is captured and its account changed", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		a := f.MerchantAccount(t)
		ch, ans := f.Draft(t, a, eur(1000), "shop.example", tollgate.CaptureManual)
		return func(through *fixture) error {
				r, err := through.CreatePayment(t.Context(), f.Caller, f.Key("one"), a, ch, ans)
				return first(r, err, 201)
			}, func() {
				must(t, f.Capture(t.Context(), ch.Payment.ID, 100, false))
				f.rename(t)
			}
	}},
	{"commit", "the account is changed", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		a := f.MerchantAccount(t)
		return func(through *fixture) error {
			r, err := through.RefusePayment(t.Context(), f.Caller, "create", f.Key("one"), a, rediskv.Answer{Status: 422, Body: []byte("{}")}, "refused")
			return first(r, err, 422)
		}, func() { f.rename(t) }
	}},
	{"change_payment", "a capture, and another capture", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		return func(through *fixture) error { return through.Capture(t.Context(), p.ID, 100, false) },
			func() { must(t, f.Capture(t.Context(), p.ID, 200, false)) }
	}},
	{"change_payment", "a capture, and the payment is canceled", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		return func(through *fixture) error { return through.Capture(t.Context(), p.ID, 100, false) },
			func() { must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel)) }
	}},
	{"change_payment", "a refund, and another refund", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		return func(through *fixture) error { return through.GiveBack(t.Context(), p.ID, 100, false) },
			func() { must(t, f.GiveBack(t.Context(), p.ID, 200, false)) }
	}},
	{"change_payment", "an approval, and a capture", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.limited(t, `{"review_above":"5.00"}`)
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		return func(through *fixture) error { return through.Move(t.Context(), p.ID, tollgate.TriggerApprove) },
			func() { must(t, f.Capture(t.Context(), p.ID, 200, false)) }
	}},
	{"change_payment", "a cancellation, which is the last", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Capture(t.Context(), p.ID, 200, false))
		return func(through *fixture) error { return through.Move(t.Context(), p.ID, tollgate.TriggerCancel) }, func() { f.rename(t) }
	}},
	{"change_payment", "an expiry, which is the last", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		f.Clock.Advance(169 * time.Hour)
		return func(through *fixture) error { return through.ExpirePayment(t.Context(), f.Caller.Organization, p.ID) }, func() { f.rename(t) }
	}},
	{"use_assertion", "the client is disabled", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		return func(through *fixture) error { return through.burn(t.Context(), f.issue("jti")) }, func() {
			f.Config.Clients[0].Status = "disabled"
			f.rename(t)
		}
	}},
	{"revoke_token", "another one is revoked", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		expires := f.Clock.Now().Add(time.Minute)
		return func(through *fixture) error {
				return through.RevokeToken(t.Context(), f.issue("jti"), "tok_1", expires)
			},
			func() { must(t, f.RevokeToken(t.Context(), f.issue("other"), "tok_2", expires)) }
	}},
	{"burn_proof", "another one is burned", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		burn := func(f *fixture, jti string) error {
			return f.BurnProof(t.Context(), f.Caller.Organization, "thumbprint", jti, time.Minute)
		}
		return func(through *fixture) error { return burn(through, "one") }, func() { must(t, burn(f, "two")) }
	}},
	{"append_audit", "the record grows", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		e := tollgate.AuditEntry{Type: "access.denied", Outcome: "denied"}
		return func(through *fixture) error { return through.Audit(t.Context(), f.Caller, e) }, func() {
			for range 20 {
				must(t, f.Audit(t.Context(), f.Caller, e))
			}
		}
	}},
	{"read_resource", "the record grows", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		return func(through *fixture) error {
				_, _, err := through.ReadResource(t.Context(), f.Caller, "organization", f.Caller.Organization)
				return err
			}, func() {
				for range 20 {
					must(t, f.Audit(t.Context(), f.Caller, tollgate.AuditEntry{Type: "access.denied", Outcome: "denied"}))
				}
			}
	}},
}

// first is what is wrong with an answer that should be this very request's.
func first(r rediskv.Result, err error, status int) error {
	if err == nil && (r.Repeated || r.Status != status) {
		err = fmt.Errorf("answered %d, repeated %v", r.Status, r.Repeated)
	}
	return err
}

var configResends = []resend{
	{"commit", "and another change", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		mine := f.Config
		mine.Organization.Name = "mine"
		return func(through *fixture) error {
			changes, err := through.ApplyConfig(t.Context(), mine, false)
			if err == nil && len(changes) != 1 {
				err = fmt.Errorf("changes %v", changes)
			}
			return err
		}, func() { f.rename(t) }
	}},
	{"commit", "a client is disabled, and enabled again", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		mine, theirs := f.Config, f.Config
		mine.Clients = slices.Clone(mine.Clients)
		mine.Clients[0].Status = "disabled"
		return func(through *fixture) error {
				changes, err := through.ApplyConfig(t.Context(), mine, false)
				if err == nil && (len(changes) != 1 || changes[0].Ends != 1) {
					err = fmt.Errorf("changes %v", changes)
				}
				return err
			}, func() {
				changes, err := f.ApplyConfig(t.Context(), theirs, false)
				must(t, err)
				if len(changes) != 1 {
					t.Errorf("changes %v", changes)
				}
			}
	}},
	{"commit", "what a run that died has left, and another run", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		raw := rawClient(t, f.URL)
		list := scanKeys(t, raw, "*"+f.Caller.Organization+":grants")[0]
		must(t, raw.SAdd(t.Context(), strings.TrimSuffix(list, "grants")+"ending", f.Config.Clients[0].ID+"/1").Err())
		return func(through *fixture) error {
			_, err := through.ApplyConfig(t.Context(), f.Config, false)
			return err
		}, func() { f.rename(t) }
	}},
	{"commit", "a publication, and the next version", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.signer(t)
		return func(through *fixture) error {
			through.Config = f.Config // it has the signer
			r, err := through.publish(t, "shop_fee", 1)
			return first(r, err, 201)
		}, func() { f.published(t, "shop_fee", 2) }
	}},
	{"commit", "an activation, which is canceled", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.published(t, "shop_fee", 1)
		request := f.activation(t, "shop_fee", 1)
		request.At = f.Now().Add(time.Hour)
		return func(through *fixture) error {
				r, err := through.createActivation(t, nil, request)
				return first(r, err, 201)
			}, func() {
				list, _, err := f.Activations(t.Context(), f.Caller, f.Config.RuleSets[0].ID, "", 1)
				must(t, err)
				must(t, f.cancelActivation(t, list[0].ID))
			}
	}},
	{"commit", "a shadow, which is stopped", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		return func(through *fixture) error { through.shadowed(t); return nil }, func() {
			list, _, err := f.Shadows(t.Context(), f.Caller, "", 1)
			must(t, err)
			must(t, f.stop(t, list[0].ID, func() {}))
		}
	}},
	{"record_shadow", "another instance records, and it is stopped", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		id := f.shadowed(t)
		record := func(f *fixture, instance string) error {
			return f.RecordComparison(t.Context(), f.Caller.Organization, id, instance, &rules.Comparison{Operation: instance, Compared: 3, Equal: 3})
		}
		return func(through *fixture) error { return record(through, "ins_1") }, func() {
			must(t, record(f, "ins_2"))
			must(t, f.stop(t, id, func() {}))
		}
	}},
}

var errNotTaken = errors.New("not taken")
