package handlers_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
	"tollgate/rediskv/rules"
)

// damageable is a kind of stored object: where clients read it and where it
// stands in lists, the fields that must be readable, and those of free text,
// where nothing tells one word from another.
type damageable struct {
	kind, prefix string
	paths        []string // ID stands for the object's
	lists        []string
	strict, free string // names of fields
	document     bool   // one string of JSON, not a hash
	only         bool   // the strict fields
	name         string // of the object; empty: any
	key          string // of an object whose key does not end in its id, which prefix is
}

var damageables = []damageable{
	{
		kind: "payment", prefix: "pay_", paths: []string{"/v1/payments/ID"}, lists: []string{"/v1/payments"},
		strict: "v st capd capb reld fee upd ma amt cur payee cm bef crt per perv perd", free: "payee ref desc why perr use0 use1 use2",
	},
	{
		kind: "transaction", prefix: "txn_", lists: []string{"/v1/transactions?limit=100", "/v1/transactions?limit=100&order=asc"},
		strict: "ty st ma amt cur crt upd pos", free: "payee ref",
	},
	{kind: "refund", prefix: "rfd_", paths: []string{"/v1/refunds/ID"}, lists: []string{"/v1/payments/$payment/refunds"}, document: true},
	{kind: "ticket", prefix: "tkt_", paths: []string{"/v1/tickets/ID"}, document: true},
	{
		kind: "webhook_endpoint", prefix: "we_", paths: []string{"/v1/webhooks/ID"}, lists: []string{"/v1/webhooks"},
		strict: "v json keys url st",
	},
	{kind: "delivery", prefix: "dlv_", lists: []string{"/v1/webhooks/$webhook/deliveries"}, strict: "st we evt et crt n lat cat code", free: "why"},
	{kind: "export", prefix: "exp_", paths: []string{"/v1/exports/ID"}, lists: []string{"/v1/exports"}, strict: "json flt st done bytes sum exp", only: true},
	{kind: "merchant_account", prefix: "ma_", paths: []string{"/v1/merchant-accounts/ID"}, lists: []string{"/v1/merchant-accounts"}, strict: "v json"},
	{kind: "legal_entity", prefix: "le_", paths: []string{"/v1/legal-entities/ID"}, strict: "v json"},
	{kind: "rule", prefix: "rul_shop_fee_v1", key: "rule:shop_fee@v1", paths: []string{"/v1/rules/ID"}, lists: []string{"/v1/rules"}, strict: "v json sha golden"},
	{
		kind: "activation", prefix: "act_", paths: []string{"/v1/rule-sets/$set/activations/ID"}, lists: []string{"/v1/rule-sets/$set/activations"},
		strict: "v json",
	},
	{kind: "shadow", prefix: "shd_", paths: []string{"/v1/shadows/ID"}, lists: []string{"/v1/shadows"}, strict: "v json"},
	{kind: "grant", prefix: "grt_", paths: []string{"/v1/grants/ID"}, strict: "json", name: "grant_early"},
}

// damaged has one object of each kind, and others beside it.
func damaged(t *testing.T, layout ...rediskv.Layout) *world {
	w := newWorld(t)
	check(t, w.store.WriteLayout(t.Context(), cmp.Or(append(layout, rediskv.Together)...))) // JSON can be changed in one place (TestDamageOfWhatIsPacked)
	hook := w.want(w.call("POST", "/v1/webhooks", `{"url":"https://shop.example/hook"}`), 201, "")
	w.vars["webhook"] = w.get(hook, "id")
	for _, key := range []string{"one", "two"} {
		r := w.want(w.pay(key, `{"merchant_account_id":"`+w.vars["eur"]+`","amount":"100.00","currency":"EUR","payee":"shop.example","reference":"r"}`), 201, "")
		w.vars["payment"] = cmp.Or(w.vars["payment"], w.get(r, "id"))
		w.want(w.call("POST", "/v1/payments/"+w.get(r, "id")+"/captures", `{"amount":"60.00","final_capture":false}`), 201, "")
		w.want(w.call("POST", "/v1/payments/"+w.get(r, "id")+"/refunds", `{"amount":"20.00"}`, "Idempotency-Key", "refund-"+key), 201, "")
	}
	check(t, w.fanOut())
	check(t, w.attempt(tollgate.DeliverySucceeded, 200))
	w.want(w.call("POST", "/v1/exports/preview", `{"dataset":"transactions","format":"ndjson"}`), 202, "")
	check(t, w.exports())
	w.publish("rule:shop_fee@v1", "1.5")
	w.publish("rule:shop_fee@v2", "1.6")
	w.vars["set"] = w.vars["wide_rules"]
	for _, at := range []string{"2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"} {
		r := w.want(w.call("POST", "/v1/rule-sets/"+w.vars["set"]+"/activations", `{"rule":"rule:shop_fee@v1","adds":true,"at":"`+at+`"}`), 201, "")
		w.want(w.call("POST", "/v1/rule-sets/"+w.vars["set"]+"/activations/"+w.get(r, "id")+"/cancel", ""), 200, "")
	}
	for range 2 {
		r := w.want(w.call("POST", "/v1/shadows", `{"rule":"rule:shop_fee@v1","against":"rule:card_fee@v2"}`), 201, "")
		w.vars["shadow"] = w.get(r, "id")
	}
	return w
}

// Whatever is unreadable of whichever object is damage of that object alone: it
// answers 500 record_damaged, stands marked in its place in lists, and is never
// read as something else or anybody's fault.
func TestDamageIsOfOneObject(t *testing.T) {
	w := damaged(t)
	before := dump(t, w.redis)
	for _, d := range damageables {
		var ids []string
		for key := range before {
			_, id, _ := strings.Cut(key, w.vars["org"]+":")
			if strings.HasPrefix(id, d.prefix) && !strings.Contains(id, ":") && (d.name == "" || id == w.vars[d.name]) {
				ids = append(ids, id)
			}
			for id := range partsIn(w, key, before[key]) {
				if strings.HasPrefix(id, d.prefix) {
					ids = append(ids, id)
				}
			}
		}
		if d.key != "" {
			ids = []string{d.prefix}
		}
		if len(ids) == 0 {
			t.Fatalf("there is no %s", d.kind)
		}
		if slices.Sort(ids); d.kind != "transaction" { // of which there are several kinds
			ids = ids[:1]
		}
		for _, id := range ids {
			t.Run(d.kind, func(t *testing.T) { d.look(t, w, before, id) })
		}
	}
}

// stored is where a record is, and what is there: the fields of a hash, or the text of
// a document by the name "".
type stored struct {
	w      *world
	key    string
	number string // among the parts of a payment
	fields map[string]string
}

// scripted are the fields of a transaction that scripts write.
var scripted = []string{"st", "upd", "po", "pos"}

// partsIn are the records in a hash of a payment's parts, by their identifiers.
func partsIn(w *world, key, value string) map[string]stored {
	_, of, ok := strings.Cut(key, ":parts:")
	if !ok {
		return nil
	}
	k, hash, all := w.store.Space(w.vars["org"]), fieldsIn(value), map[string]stored{}
	members, found := ledger.PartsIn(k, of, hash)
	for i, m := range members {
		number := m.Place(k).Name
		all[m.ID] = stored{w, key, number, found[i]}
		field := number + rediskv.Document
		if id := found[i]["rfd"] + found[i]["cap"]; hash[field] != "" {
			all[id] = stored{w, key, number, map[string]string{"": record.Whole(hash)[field]}}
		}
	}
	return all
}

// fieldsIn are the fields of a hash in a dump.
func fieldsIn(value string) map[string]string {
	fields := map[string]string{}
	for pair := range strings.SplitSeq(strings.TrimPrefix(value, "hash "), "\x00") {
		field, value, _ := strings.Cut(pair, "=")
		fields[field] = value
	}
	return fields
}

// put writes a field, or with value nil takes it out.
func (s stored) put(t *testing.T, field string, value *string) {
	t.Helper()
	set := func(name string, value *string) {
		t.Helper()
		if value == nil {
			check(t, command(t, s.w.redis, "HDEL", s.key, name))
			return
		}
		check(t, command(t, s.w.redis, "HSET", s.key, name, *value))
	}
	switch {
	case field == "" && s.number == "":
		check(t, command(t, s.w.redis, "SET", s.key, *value))
	case field == "":
		set(s.number+rediskv.Document, value)
		for _, more := range record.Pieces(s.number + rediskv.Document)[1:] {
			set(more, nil)
		}
	case s.number == "":
		set(field, value)
	case slices.Contains(scripted, field):
		set(s.number+"."+field, value)
	default:
		if delete(s.fields, field); value != nil {
			s.fields[field] = *value
		}
		covered := maps.Clone(s.fields)
		maps.DeleteFunc(covered, func(name, _ string) bool { return slices.Contains(scripted, name) })
		b, err := json.Marshal(covered, json.Deterministic(true))
		check(t, err)
		text := string(b)
		set(s.number, &text)
		for _, more := range []string{".+", ".++"} {
			set(s.number+more, nil)
		}
	}
}

func (d *damageable) look(t *testing.T, all *world, before keyspace, id string) {
	w := *all
	w.t = t
	var at stored
	for k, value := range before {
		if strings.HasSuffix(k, w.vars["org"]+":"+cmp.Or(d.key, id)) {
			at = stored{w: &w, key: k, fields: fieldsIn(value)}
			if text, ok := strings.CutPrefix(value, "string "); ok {
				at.fields = map[string]string{"": text}
			}
		}
		if part, ok := partsIn(&w, k, value)[id]; ok {
			at = part
		}
	}
	set := func(field, value string) {
		t.Helper()
		at.put(t, field, &value)
	}
	paths := slices.Clone(d.paths)
	for i := range paths {
		paths[i] = strings.NewReplacer("ID", id, "$set", w.vars["set"]).Replace(paths[i])
	}
	for i := range d.lists {
		paths = append(paths, strings.NewReplacer("$webhook", w.vars["webhook"], "$payment", w.vars["payment"], "$set", w.vars["set"]).Replace(d.lists[i]))
	}
	sound := map[string]reply{}
	for _, path := range paths {
		sound[path] = w.want(w.call("GET", path, ""), 200, "")
	}
	inPlace := fmt.Sprintf(`{"object":"%s","id":"%s","damaged":true}`, d.kind, id)
	look := func(what string, must, may bool) {
		t.Helper()
		noticed := false
		for _, path := range paths {
			r := w.call("GET", path, "")
			code, _ := r.body["code"].(string)
			switch {
			case r.StatusCode == 500 && code == "record_damaged" && strings.Contains(path, id):
				noticed = true
			case r.StatusCode == 200 && strings.Contains(r.text, inPlace):
				noticed = true
				if was, is := entries(sound[path]), entries(r); was != is {
					t.Errorf("%s: %s has %d entries, not %d", what, path, is, was)
				}
			case r.StatusCode == 200 && (r.text == sound[path].text || may):
			default:
				t.Errorf("%s: %s answers %d %s", what, path, r.StatusCode, r.text)
			}
		}
		if must && !noticed {
			t.Errorf("%s: nobody notices", what)
		}
	}
	if d.document {
		whole := at.fields[""]
		for name, text := range documents(d.kind, whole) {
			set("", text)
			look(name, true, false)
		}
		set("", whole)
		look("repaired", false, false)
		for envelope, must := range envelopes {
			set("", sealed.ReplaceAllString(whole, `{"$$":"`+envelope+`",`))
			look("envelope "+envelope, must, false)
		}
		set("", sealed.ReplaceAllString(whole, "{"))
		look("of before", false, false)
		return
	}
	for envelope, must := range envelopes {
		set("e", envelope)
		look("envelope "+envelope, must, false)
	}
	fields := maps.Clone(at.fields)
	at.put(t, "e", nil)
	look("of before", false, false)
	set("e", "1")
	for field, value := range fields {
		if field == "e" {
			continue
		}
		must := slices.Contains(strings.Fields(d.strict), field)
		if d.only && !must {
			continue
		}
		may := slices.Contains(strings.Fields(d.free), field)
		for _, bad := range []string{"", "x" + value, "-1", "007", "1e3", "99999999999999999999"} {
			if bad == value || (field == "payee" || may) && bad != "" {
				continue
			}
			set(field, bad)
			look(fmt.Sprintf("%s %q", field, bad), must, may)
		}
		at.put(t, field, nil)
		look(field+" gone", must, may)
		set(field, value)
		look(field+" repaired", false, false)
	}
	events := w.want(w.call("GET", "/v1/events?types=integrity.failed&limit=100&object_id="+id, ""), 200, "")
	if n := entries(events); n != 1 {
		t.Errorf("%d events integrity.failed of %s: %s", n, id, events.text)
	}
}

// sealed is the envelope of a document with its checksum.
var sealed = regexp.MustCompile(`^\{"\$":"1;;[0-9a-f]{8}",`)

// envelopes are those of a record, and whether it is then of another release, or
// another record.
var envelopes = map[string]bool{
	"1": false, "1;": false, "1;;": false, // without a checksum
	"1;;0a9f": true, "1;;0a9f0a9f": true,
	"0": true, "2": true, "1x": true, "x1": true, "1;zstd": true, "1;zstd;0a9f": true, "1;;0a9g": true,
}

// Whatever is stored names its format and has a checksum. Indexes, counters and
// queues are no records.
func TestRecordsNameTheirFormat(t *testing.T) {
	w := damaged(t)
	w.want(w.call("POST", "/v1/webhooks/"+w.vars["webhook"]+"/recoveries", `{"since":"2026-01-01T00:00:00Z"}`), 202, "")
	seen := map[string]int{}
	for key, value := range dump(t, w.redis) {
		kind, text, _ := strings.Cut(value, " ")
		name := organizationKey.ReplaceAllString(key, "")
		record, fields := false, map[string]string{}
		pairs := strings.Split(text, "\x00")
		switch kind {
		case "hash":
			for _, pair := range pairs {
				field, value, _ := strings.Cut(pair, "=")
				fields[field] = value
				record = record || field == "json" || strings.HasPrefix(value, `{"object"`)
			}
			record = (record || objectKey.MatchString(name)) && !strings.HasSuffix(name, ":att")
			if strings.HasSuffix(name, ":att") && !sealed.MatchString(fields["1"]) && !strings.HasPrefix(fields["1"], "1;b;") {
				t.Errorf("%s: %s", key, fields["1"])
			}
		case "string":
			if record = strings.HasPrefix(text, "{"); record {
				fields["e"], _, _ = strings.Cut(strings.TrimPrefix(text, `{"$":"`), `"`)
			}
			if strings.HasPrefix(name, "idem:") {
				record = true
				fields["e"], _, _ = strings.Cut(text, "/")
			}
		case "stream":
			if record = slices.Contains(pairs, "b"); record && slices.Index(pairs, "e") > 0 {
				fields["e"] = pairs[slices.Index(pairs, "e")+1]
			}
		}
		if record {
			seen[kind]++
			if !envelope.MatchString(fields["e"]) {
				t.Errorf("%s has the envelope %q", key, fields["e"])
			}
		}
	}
	for kind, most := range map[string]int{"hash": 20, "string": 12, "stream": 2} {
		if seen[kind] < most {
			t.Errorf("%d records of kind %s", seen[kind], kind)
		}
	}
}

// envelope is one with a checksum, and what stands behind it.
var envelope = regexp.MustCompile(`^1;p?;[0-9a-f]{8,}$`)

// organizationKey is how the keys of an organization begin.
var organizationKey = regexp.MustCompile(`^\{p[0-9]+\}:org_[^:]+:`)

// objectKey is the name of an object's own hash.
var objectKey = regexp.MustCompile(`^[a-z]{2,3}_[^:]+$|^rule:[^:]+$`)

func entries(r reply) int {
	list, _ := r.body["data"].([]any)
	return len(list)
}

// documents are the JSON of a ticket or a refund with one thing wrong with each.
func documents(kind, whole string) map[string]string {
	if kind == "refund" {
		return map[string]string{
			"nothing":    "",
			"cut":        whole[:len(whole)/2],
			"an amount":  strings.Replace(whole, `"20.00"`, `"2O.00"`, 1),
			"a sign":     strings.Replace(whole, `"20.00"`, `"-20.00"`, 1),
			"places":     strings.Replace(whole, `"20.00"`, `"20.001"`, 1),
			"a currency": strings.ReplaceAll(whole, `"EUR"`, `"EVR"`),
			"another's":  strings.Replace(whole, `"id":"rfd_`, `"id":"rfd_0`, 1),
			"a status":   strings.Replace(whole, `"status":"succeeded"`, `"status":"failed"`, 1),
		}
	}
	return map[string]string{
		"nothing":            "",
		"cut":                whole[:len(whole)/2],
		"an amount":          strings.Replace(whole, `"100.00"`, `"1OO.00"`, 1),
		"a sign":             strings.Replace(whole, `"100.00"`, `"-100.00"`, 1),
		"places":             strings.Replace(whole, `"100.00"`, `"100.001"`, 1),
		"a currency":         strings.ReplaceAll(whole, `"EUR"`, `"EVR"`),
		"a number":           strings.Replace(whole, `"number":1`, `"number":7`, 1),
		"another's":          strings.Replace(whole, `"id":"tkt_`, `"id":"tkt_0`, 1),
		"without evaluation": strings.Replace(whole, `"evaluations":[`, `"evaluation":[`, 1),
	}
}

// An event that is no longer what was written stands marked in its place, and
// the endpoint that it was for gets all others.
func TestDamagedEvent(t *testing.T) {
	w := damaged(t)
	key, log := "", []string(nil) // id, i, its value, t, its value, a, its value, b, its value, e, its value; the next
	for k, v := range dump(t, w.redis) {
		if strings.HasSuffix(k, w.vars["org"]+":events") {
			key, log = k, strings.Split(strings.TrimPrefix(v, "stream "), "\x00")
		}
	}
	check(t, command(t, w.redis, "DEL", key))
	id := ""
	for entry := range slices.Chunk(log, 11) {
		if entry[4] == "payment.captured" && id == "" {
			id, entry[8] = entry[2], entry[8][:20]
		}
		check(t, command(t, w.redis, append([]string{"XADD", key}, entry...)...))
	}
	inPlace := fmt.Sprintf(`{"object":"event","id":"%s","damaged":true}`, id)
	r := w.want(w.call("GET", "/v1/events?limit=100", ""), 200, "")
	if !strings.Contains(r.text, inPlace) {
		t.Errorf("%s is not in its place: %s", id, r.text)
	}
	w.want(w.call("GET", "/v1/events/"+id, ""), 500, "record_damaged")
	r = w.want(w.call("POST", "/v1/exports/preview", `{"dataset":"events","format":"ndjson"}`), 202, "")
	check(t, w.exports())
	path := "/v1/exports/" + w.get(r, "id") + "/file"
	if file := w.want(w.call("GET", path, ""), 200, ""); !strings.Contains(file.text, inPlace) {
		t.Errorf("the export does not show it: %s", file.text)
	}
	r = w.want(w.call("GET", "/v1/events?types=integrity.failed", ""), 200, "")
	if !strings.Contains(r.text, `"object_id":"`+id+`"`) {
		t.Errorf("nobody is told: %s", r.text)
	}
}

// What a shadow has found and a version of a perimeter stand in their places
// too, and so does a shadow whose totals are no numbers.
func TestDamageInRuleLists(t *testing.T) {
	w := damaged(t)
	prefix := ""
	for key := range dump(t, w.redis) {
		if before, ok := strings.CutSuffix(key, w.vars["shadow"]); ok {
			prefix = before
		}
	}
	one := tollgate.Divergence{
		Object: "divergence", ID: w.store.NewID(tollgate.PrefixDivergence), CreatedAt: w.store.Now(), ShadowID: w.vars["shadow"], MerchantAccountID: w.vars["eur"],
		Input: tollgate.EvaluationInput{Amount: tollgate.Money{Minor: 1, Currency: "EUR"}, Currency: "EUR", Payee: "shop.example"},
	}
	record := func(operation string) {
		check(t, w.store.RecordComparison(t.Context(), w.vars["org"], w.vars["shadow"], "ins_1", &rules.Comparison{
			Operation: operation, Compared: 1, Different: 1, Divergences: []tollgate.Divergence{one},
		}))
	}
	stubs := func(path, kind string, entries, stubs int) {
		t.Helper()
		r := w.want(w.call("GET", path, ""), 200, "")
		list, _ := r.body["data"].([]any)
		if n := strings.Count(r.text, `"damaged":true`); len(list) != entries || n != stubs || strings.Count(r.text, `{"object":"`+kind+`","id":"`) < n {
			t.Errorf("%s: %d entries, %d of them damaged: %s", path, len(list), n, r.text)
		}
	}
	record("1")
	for _, bad := range []string{"", "{", "null", `{"object":"divergence","id":"x"}`} {
		check(t, command(t, w.redis, "XADD", prefix+w.vars["shadow"]+":divergences", "*", "b", bad))
	}
	record("2")
	stubs("/v1/shadows/"+w.vars["shadow"]+"/divergences", "divergence", 6, 4)

	check(t, command(t, w.redis, "HSET", prefix+w.vars["shadow"]+":totals", "equal", "1e3"))
	w.want(w.call("GET", "/v1/shadows/"+w.vars["shadow"], ""), 500, "record_damaged")
	stubs("/v1/shadows", "shadow", 2, 1)

	all := w.want(w.call("GET", "/v1/perimeters", ""), 200, "")
	path, key := "/v1/perimeters/"+w.vars["eur_perimeter"], prefix+w.vars["eur_perimeter"]+":1"
	whole := strings.TrimPrefix(dump(t, w.redis)[key], "string ")
	for _, bad := range []string{"", whole[:len(whole)/2], "null", strings.Replace(whole, `"per_`, `"per_0`, 1), strings.Replace(whole, `"review_above":"1000"`, `"review_above":"1OOO"`, 1)} {
		check(t, command(t, w.redis, "SET", key, bad))
		stubs("/v1/perimeters", "perimeter", entries(all), 1)
		w.want(w.call("GET", path, ""), 500, "record_damaged")
	}
	check(t, command(t, w.redis, "SET", key, whole))
	if r := w.want(w.call("GET", "/v1/perimeters", ""), 200, ""); r.text != all.text {
		t.Errorf("repaired: %s", r.text)
	}
	r := w.want(w.call("GET", "/v1/events?types=integrity.failed&limit=100&object_id="+w.vars["eur_perimeter"], ""), 200, "")
	if n := entries(r); n != 1 {
		t.Errorf("%d events of the perimeter", n)
	}
}
