package rediskv_test

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/keyring"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
	"tollgate/rediskv/rules"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/testkit"
	"tollgate/rediskv/webhooks"
)

// oneOfEach makes records of every kind, each by what writes it.
func oneOfEach(t *testing.T) *fixture {
	f := newFixture(t)
	f.published(t, "shop_fee", 1)
	f.activate(t, 1)
	shadow := f.shadowed(t)
	must(t, f.RecordComparison(t.Context(), f.Caller.Organization, shadow, "ins_1", &rules.Comparison{
		Operation: "1", Compared: 1, Divergences: []tollgate.Divergence{fill(tollgate.Divergence{ShadowID: shadow})},
	}))
	w := f.endpoint(t)
	manual := f.Pay(t, eur(1000), tollgate.CaptureManual)
	must(t, f.Capture(t.Context(), manual.ID, 600, false))
	must(t, f.GiveBack(t.Context(), manual.ID, 100, false))
	f.fanOut(t, "a")
	for _, work := range f.take(t, 2) {
		f.record(t, work, succeeded)
		_, err := f.replay(t, w.ID, work.DeliveryID)
		must(t, err)
	}
	for _, work := range f.take(t, 2) {
		f.record(t, work, webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: f.Now().Add(time.Minute), StatusCode: 503, Reason: "http_503"})
	}
	f.recover(t, w.ID, f.Now().Add(-time.Hour))
	_, err := f.runJobs(t, f.Store)
	must(t, err)
	ping, err := tollgate.PingWebhook(f.NewID, f.Origin(f.Caller), f.webhook(t, w.ID))
	must(t, err)
	_, err = f.CommitPing(t.Context(), f.Caller, nil, ping, rediskv.Answer{Status: 202})
	must(t, err)
	f.export(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	f.step(t, f.duePayout(t))
	f.mustSettle(t)
	must(t, f.revoke(t, "tok_1", time.Minute))
	f.rename(t) // the revisions of some are higher than 1
	f.rekey(t, "chg_1")
	must(t, f.ReplaceAuditKeys(t.Context(), "chg_1", keyring.Keyring{}, `{"changes":["chg_1"]}`))
	f.sealAudit(t)
	f.post(t)
	must(t, f.SaySecrets(t.Context(), "wrk_1", keyring.Secrets{Has: []string{"a"}, Uses: "a", SaidAt: f.Now()}))
	return f
}

// bits hands over a text with each of its bits turned over, one at a time.
func bits(text string, each func(at int, turned string)) {
	b := []byte(text)
	for at := range b {
		for bit := range 8 {
			b[at] ^= 1 << bit
			each(at, string(b))
			b[at] ^= 1 << bit
		}
	}
}

var beforeNumber = regexp.MustCompile(`^[^0]*"seq":$`) // of audit records

// TestEveryBitIsCovered: whichever bit of whichever record is another one, its
// checksum says so, but for what scripts write, which the table of kinds names.
func TestEveryBitIsCovered(t *testing.T) {
	f := oneOfEach(t)
	raw, _ := f.raw(t)
	seen := map[string]bool{}
	covered := func(t *testing.T, what, text string, check func(string) error, free func(at int, turned string) bool) {
		t.Helper()
		if err := check(text); err != nil {
			t.Errorf("%s, as it was written: %v", what, err)
		}
		bits(text, func(at int, turned string) {
			if err := check(turned); err == nil && (free == nil || !free(at, turned)) {
				t.Errorf("%s: nobody notices that byte %d of %q is %q", what, at, text, turned[at])
			}
		})
	}
	for _, key := range scanKeys(t, raw, "{*}:"+f.Caller.Organization+"*") {
		switch typeOf(t, raw, key) {
		case "hash":
			fields, err := raw.HGetAll(t.Context(), key).Result()
			must(t, err)
			if strings.HasSuffix(key, ":att") {
				for number, text := range record.Whole(fields) {
					seen["attempt"] = true
					covered(t, key, text, func(text string) error { return checkText(key+":"+number, text) }, nil)
				}
			}
			if k := record.KindOf(key); k != nil && k.Within {
				for number, text := range record.Whole(fields) {
					if !record.IsNumbered(number) {
						continue
					}
					seen["attempt"] = true
					covered(t, key, text, func(text string) error { return checkText(webhooks.AttemptsOf(key)+":"+number, text) }, nil)
				}
			}
			if k := record.KindOf(key); k != nil {
				seen[k.Name] = true
				coveredFields(t, key, k, fields)
			}
			coveredBehind(t, f, key, fields)
			for id, text := range partsOf(t, f, key, fields) {
				seen[id[:strings.IndexByte(id, '_')+1]] = true
				at := f.Space(f.Caller.Organization).Object(id)
				if k := record.KindOf(at); k != nil { // as it would be by itself
					coveredShared(t, at, k, text, fields)
					continue
				}
				covered(t, key, text, func(text string) error { return checkText(at, text) }, nil)
			}
		case "string":
			text, err := raw.Get(t.Context(), key).Result()
			must(t, err)
			switch {
			case strings.Contains(key, ":idem:"):
				seen["request"] = true
				covered(t, key, text, func(text string) error { return record.CheckRequest(key, text) }, nil)
			case isText(text):
				name := key[strings.LastIndex(key, f.Caller.Organization)+len(f.Caller.Organization)+1:]
				kind, _, ok := strings.Cut(name, "_")
				if ok {
					kind += "_"
				}
				seen[kind] = true
				covered(t, key, text, func(text string) error { return checkText(key, text) }, nil)
			}
		case "stream":
			entries, err := raw.XRange(t.Context(), key, "-", "+").Result()
			must(t, err)
			for _, m := range entries[max(0, len(entries)-5):] {
				seen[key[strings.LastIndexByte(key, ':')+1:]] = true
				for name := range m.Values {
					value := rediskv.Text(m, name)
					covered(t, key, value, func(text string) error {
						turned := maps.Clone(m.Values)
						turned[name] = text
						return checkEntry(key, turned)
					}, func(at int, turned string) bool {
						// The number is the script's.
						digits := strings.IndexFunc(value[at:], func(r rune) bool { return r < '0' || r > '9' })
						return name == "b" && digits > 0 && strings.ContainsRune("0123456789", rune(turned[at])) && beforeNumber.MatchString(strings.TrimRight(value[:at], "0123456789")[max(0, strings.LastIndexByte(value[:at], ',')):])
					})
					covered(t, key, name, func(turned string) error {
						values := maps.Clone(m.Values)
						delete(values, name)
						values[turned] = value
						return checkEntry(key, values)
					}, func(int, string) bool { return value == "" })
				}
			}
		}
	}
	f.cut(t)
	for _, key := range scanKeys(t, raw, "*:events:*-*")[:2] {
		seen["segment"] = true
		text, err := raw.Get(t.Context(), key).Result()
		must(t, err)
		was, err := streams.Unpack(text)
		must(t, err)
		covered(t, key, text, func(text string) error { _, err := streams.Unpack(text); return err }, func(_ int, turned string) bool {
			is, err := streams.Unpack(turned) // a bit may stand for nothing
			return err == nil && reflect.DeepEqual(is, was)
		})
	}
	want := []string{
		"payment", "transaction", "payout", "delivery", "replay", "recovery", "webhook_endpoint", "export", "organization", "merchant_account", "legal_entity",
		"client", "grant", "rule_signer", "rule_set", "activation", "shadow", "rule", "rule_name", "shadows", "quotas",
		"attempt", "request", "segment", "tkt_", "cap_", "rfd_", "txn_", "per_", "rs_", "events", "audit", "divergences", "checkpoints", "tree", "tree:his_", "postings",
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("records of\n%v, not of\n%v", got, want)
	}
}

// partsOf are the records in a hash of a payment's parts, by their identifiers.
func partsOf(t *testing.T, f *fixture, key string, fields map[string]string) map[string]string {
	t.Helper()
	k, all := f.Space(f.Caller.Organization), map[string]string{}
	_, of, ok := strings.Cut(key, ":parts:")
	if !ok {
		return nil
	}
	members, found := ledger.PartsIn(k, of, fields)
	for i, m := range members {
		number := m.Place(k).Name
		all[m.ID] = fields[number] + fields[number+".+"] + fields[number+".++"]
		if text := record.Whole(fields)[number+rediskv.Document]; text != "" {
			all[found[i]["cap"]+found[i]["rfd"]] = text
		}
	}
	return all
}

// coveredShared turns each bit of the text of a record in one hash with others.
func coveredShared(t *testing.T, as string, k *record.Kind, text string, hash map[string]string) {
	t.Helper()
	of, number, _ := tollgate.NumberIn(as[strings.LastIndexByte(as, ':')+1:])
	check := func(text string) error {
		values := make([]any, len(k.Asked(number)))
		for i, name := range k.Asked(number)[len(k.SharedNames(number)):] {
			if piece, there := hash[name]; there {
				values[len(k.SharedNames(number))+i] = piece
			}
		}
		values[0] = text
		return record.Check(record.Verified(as, k.Unshared(of, values, new(record.First)))[record.Field])
	}
	if err := check(text); err != nil || !strings.Contains(text, `"e":"1;;`) && text[0] != bodies.PackedTexts && text[0] != bodies.PackedBehind {
		t.Errorf("%s, as it was written, %q: %v", as, text, err)
	}
	bits(text, func(at int, turned string) {
		if check(turned) == nil {
			t.Errorf("%s: nobody notices that byte %d of %q is %q", as, at, text, turned[at])
		}
	})
}

// coveredBehind turns each bit of a payment's first transaction: those that repeat what it
// has are read as they were, or are damaged as well.
func coveredBehind(t *testing.T, f *fixture, key string, fields map[string]string) {
	t.Helper()
	_, of, ok := strings.Cut(key, ":parts:")
	if !ok {
		return
	}
	k := f.Space(f.Caller.Organization)
	members, was := ledger.PartsIn(k, of, fields)
	damaged := 0
	for _, piece := range []string{"00", "00.+", "00.++"} {
		bits(fields[piece], func(at int, turned string) {
			hash := maps.Clone(fields)
			hash[piece] = turned
			_, is := ledger.PartsIn(k, of, hash)
			for i, m := range members[1:] {
				if err := record.Check(is[1+i][record.Field]); err != nil {
					damaged++
				} else if !maps.Equal(is[1+i], was[1+i]) {
					t.Errorf("%s: with byte %d of %s turned, %s is read as %v", key, at, piece, m.ID, is[1+i])
				}
			}
		})
	}
	if behind := record.IsBehind(fields["01"]); behind != (damaged > 0) {
		t.Errorf("%s: %d later transactions are damaged by the first", key, damaged)
	}
}

func typeOf(t *testing.T, raw redis.UniversalClient, key string) string {
	t.Helper()
	kind, err := raw.Type(t.Context(), key).Result()
	must(t, err)
	return kind
}

func checkText(key, text string) error { return record.CheckText(key, text) }

// isText reports whether a string is a record of its own: JSON, or what is packed.
func isText(text string) bool { return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "1;b;") }

func checkEntry(key string, values map[string]any) error {
	if _, ok := values["i"]; !ok && (strings.HasSuffix(key, ":divergences") || strings.HasSuffix(key, ":checkpoints")) {
		return record.CheckRow(key, values)
	}
	return record.CheckEntry(key, values)
}

// coveredFields turns each bit of a hash's names and values, and compares the fields
// that it has with the table of kinds.
func coveredFields(t *testing.T, key string, k *record.Kind, fields map[string]string) {
	t.Helper()
	check := func(f map[string]string) error { return record.Check(record.Verified(key, f)[record.Field]) }
	if err := check(maps.Clone(fields)); err != nil || !strings.HasPrefix(record.Verified(key, maps.Clone(fields))[record.Field], "1;;") {
		t.Errorf("%s, as it was written, has the envelope %q: %v", key, fields[record.Field], err)
	}
	k = k.In(fields)
	for name, value := range fields {
		is := func(list []string) bool { return slices.Contains(list, name) }
		numbered := k.Numbered != "" && strings.TrimRight(name, "0123456789") == k.Numbered
		folded := len(k.Folded) > 0 && is(record.Pieces(record.FoldField))
		if k.Within && record.IsNumbered(name) { // a record of its own
			continue
		}
		if !is(k.Covered) && !is(k.Scripts) && !numbered && !folded && name != record.Field && name != "golden" {
			t.Errorf("%s: the table of kinds does not name %q", key, name)
		}
		if is(k.Covered) && is(k.Scripts) {
			t.Errorf("%s: the table of kinds names %q twice", key, name)
		}
		if value == "" || is(k.Scripts) || name == "golden" { // the last has a sum of its own
			continue
		}
		bits(value, func(at int, turned string) {
			f := maps.Clone(fields)
			if f[name] = turned; check(f) == nil {
				t.Errorf("%s: nobody notices that byte %d of %s = %q is %q", key, at, name, value, turned[at])
			}
		})
		bits(name, func(_ int, turned string) {
			f := maps.Clone(fields)
			if _, there := f[turned]; there {
				return
			}
			delete(f, name)
			if f[turned] = value; check(f) == nil {
				t.Errorf("%s: nobody notices that %s is %q", key, name, turned)
			}
		})
	}
}

// TestRecordElsewhere: a record that stands at another key, even that of the same
// object of another organization, is damage.
func TestRecordElsewhere(t *testing.T) {
	f := oneOfEach(t)
	raw, _ := f.raw(t)
	for _, key := range scanKeys(t, raw, "{*}:"+f.Caller.Organization+":*") {
		other := strings.Replace(key, f.Caller.Organization, "org_other", 1)
		switch typeOf(t, raw, key) {
		case "hash":
			if record.KindOf(key) == nil {
				continue
			}
			fields, err := raw.HGetAll(t.Context(), key).Result()
			must(t, err)
			if record.Check(record.Verified(other, fields)[record.Field]) == nil {
				t.Errorf("%s is read as %s", key, other)
			}
		case "string":
			text, err := raw.Get(t.Context(), key).Result()
			must(t, err)
			if isText(text) && checkText(other, text) == nil || strings.Contains(key, ":idem:") && record.CheckRequest(other, text) == nil {
				t.Errorf("%s is read as %s", key, other)
			}
		}
	}
}

// TestChangedByAnEarlierRelease: an earlier release changes fields and leaves the
// checksum as it is. That is no damage; the next change makes a checksum again.
func TestChangedByAnEarlierRelease(t *testing.T) {
	f := newFixture(t)
	must(t, f.WriteLayout(t.Context(), rediskv.Compact)) // it reads no other, and changes none
	raw, _ := f.raw(t)
	k := f.Space(f.Caller.Organization)
	set := func(id string, pairs ...any) {
		t.Helper()
		must(t, raw.HSet(t.Context(), k.Object(id), pairs...).Err())
	}
	sum := func(id string) (sums bool) {
		fields, err := raw.HGetAll(t.Context(), k.Object(id)).Result()
		must(t, err)
		if err := record.Check(record.Verified(k.Object(id), maps.Clone(fields))[record.Field]); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		fields["crt"] += "0"
		fields["json"] += " "
		return record.Check(record.Verified(k.Object(id), fields)[record.Field]) != nil
	}
	made := func(id, when string) {
		t.Helper()
		if !sum(id) {
			t.Errorf("%s: %s has no checksum", when, id)
		}
	}
	unmade := func(id, when string) {
		t.Helper()
		if sum(id) {
			t.Errorf("%s: the checksum of %s is still compared", when, id)
		}
	}

	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	made(p.ID, "made")
	set(p.ID, "v", "2", "desc", "another", "upd", rediskv.Milli(f.Now()+1))
	unmade(p.ID, "changed by the first release")
	f.Read(t, p.ID)
	must(t, f.Capture(t.Context(), p.ID, 100, false))
	made(p.ID, "captured")
	set(p.ID, "v", "4", "fee", "7", "e", "1")
	unmade(p.ID, "changed by the build before")
	must(t, raw.HDel(t.Context(), k.Object(p.ID), "e").Err())
	unmade(p.ID, "of the first release")
	f.Read(t, p.ID)
	must(t, f.Capture(t.Context(), p.ID, 100, false))
	made(p.ID, "captured again")

	id := f.duePayout(t)
	own := tollgate.PayoutTransactionOf(id)
	made(id, "made")
	made(own, "made")
	later := rediskv.Milli(f.Now() + 1)
	set(id, "st", "held", "held", "why", "step", "check", "upd", later)
	set(own, "st", "held", "upd", later)
	unmade(id, "held by the build before")
	unmade(own, "held by the build before")
	f.Clock.Advance(time.Second)
	must(t, f.releasePayout(t, id, "looked at"))
	made(id, "released")
	made(own, "released")
	f.step(t, id)
	set(own, "st", "paid", "upd", rediskv.Milli(f.Now()+1), "ref", "bank 7")
	unmade(own, "paid by the build before")

	w := f.endpoint(t)
	made(w.ID, "made")
	set(w.ID, "v", "2", "json", "{}")
	unmade(w.ID, "changed by the first release")

	e, err := f.newExport(t)
	must(t, err)
	made(e.ID, "made")
	set(e.ID, "st", "failed", "fin", later, "code", "internal", "why", "why")
	unmade(e.ID, "ended by the build before")

	must(t, raw.Del(t.Context(), rediskv.ExportsKey(k.Partition)).Err()) // the one above
	done := f.export(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	set(done.ID, "st", "expired", "exp", rediskv.Milli(f.Now()))
	made(done.ID, "dropped by the build before")
	if got, err := f.Export(t.Context(), f.Caller, done.ID); err != nil || got.Status != tollgate.ExportStatusExpired {
		t.Errorf("dropped by the build before: %+v, %v", got, err)
	}
}

// TestDeliveryOfAnotherPlace: a delivery that names another event, or another place of
// it in the log, is not sent, and is not taken for one whose event has gone.
func TestDeliveryOfAnotherPlace(t *testing.T) {
	for _, field := range []string{"evt", "sid", "et"} {
		f := newFixture(t)
		f.endpoint(t)
		f.Pay(t, eur(100), tollgate.CaptureManual)
		f.fanOut(t, "a")
		raw, _ := f.raw(t)
		key := slices.DeleteFunc(scanKeys(t, raw, "*:dlv_*"), func(key string) bool { return record.KindOf(key) == nil })[0]
		b := []byte(testkit.Field(t, raw, key, field))
		b[len(b)-1] ^= 1
		testkit.SetField(t, raw, key, field, string(b))
		work := f.by(t, 0).take(t, 1) // whoever has made it knows better
		if len(work) != 1 || !work[0].Damaged || work[0].Body != nil {
			t.Errorf("%s: %+v", field, work)
		}
	}
}

// TestCheckFindsEveryKind: one bit of a record of each kind is a finding that names its
// key.
func TestCheckFindsEveryKind(t *testing.T) {
	f := oneOfEach(t)
	raw, _ := f.raw(t)
	ctx := t.Context()
	turn := func(text string) string {
		b := []byte(text)
		b[len(b)/2] ^= 1
		return string(b)
	}
	broken := map[string]bool{} // by key
	for _, key := range scanKeys(t, raw, "{*}:"+f.Caller.Organization+"*") {
		switch typeOf(t, raw, key) {
		case "hash":
			fields, err := raw.HGetAll(ctx, key).Result()
			must(t, err)
			k := record.KindOf(key)
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				if k != nil && slices.Contains(k.In(fields).Covered, name) && fields[name] != "" || strings.HasSuffix(key, ":att") && strings.HasPrefix(fields[name], "{") {
					must(t, raw.HSet(ctx, key, name, turn(fields[name])).Err())
					broken[key] = true
					break
				}
			}
		case "string":
			text, err := raw.Get(ctx, key).Result()
			must(t, err)
			if isText(text) || strings.Contains(key, ":idem:") {
				must(t, raw.Set(ctx, key, turn(text), redis.KeepTTL).Err())
				broken[key] = true
			}
		case "stream":
			if strings.HasSuffix(key, ":divergences") {
				m, err := raw.XRange(ctx, key, "-", "+").Result()
				must(t, err)
				must(t, raw.Del(ctx, key).Err())
				must(t, raw.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: map[string]any{"b": turn(rediskv.Text(m[0], "b")), "e": rediskv.Text(m[0], "e")}}).Err())
				broken[key] = true
			}
		}
	}
	var messages []string
	w := &checks.Walk{Found: func(one checks.Finding) {
		if one.Kind == consistency.FindingDamaged {
			messages = append(messages, one.Message)
		}
	}}
	must(t, f.CheckKeys(ctx, w))
	if len(broken) < 30 {
		t.Errorf("only %d records", len(broken))
	}
	for key := range broken {
		if !slices.ContainsFunc(messages, func(m string) bool { return strings.HasPrefix(m, key+": ") }) {
			t.Errorf("nobody found %s", key)
		}
	}
}

// TestWhatTheScriptGives: the number and the history of an event have a checksum of
// their own; events of before have the number alone, and none.
func TestWhatTheScriptGives(t *testing.T) {
	const key = "{p00}:org_1:events"
	e := record.Entry{Head: []byte(`{"sequence":`), Tail: []byte(`,"data":{}}`), ID: "evt_1", Type: "x", Account: "ma_1"}
	const before, sum = "", "e1bdc440"
	for _, c := range []struct {
		text, sum string
		whole     bool
	}{
		{`{"sequence":12,"data":{}}`, before, true},
		{`{"sequence":12,"history_id":"his_01m8","data":{}}`, sum, true},
		{`{"sequence":12,"history_id":"his_01m8","data":{}}`, before, false},
		{`{"sequence":12,"data":{}}`, sum, false},
		{`{"sequence":13,"history_id":"his_01m8","data":{}}`, sum, false},
		{`{"sequence":12,"history_id":"his_01m9","data":{}}`, sum, false},
		{`{"sequence":12,"history_ie":"his_01m8","data":{}}`, sum, false},
		{`{"sequence":12,"history_id":"his_01m8","data":{ }}`, sum, false},
	} {
		err := record.CheckEntry(key, map[string]any{"b": c.text, "i": "evt_1", "t": "x", "a": "ma_1", "e": e.Envelope(key) + c.sum})
		if (err == nil) != c.whole {
			t.Errorf("%s %s: %v", c.text, c.sum, err)
		}
	}
}
