package handlers_test

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// asked is a request with a key that has been carried out.
type asked struct {
	*operation
	key   string
	first reply
}

// repeatable carries every operation out that takes an Idempotency-Key.
func (w *world) repeatable() (list []asked) {
	w.t.Helper()
	for _, o := range w.operations() {
		if o.key == "" {
			continue
		}
		if o.id == "publishRule" { // one that is not there yet
			text, err := json.Marshal(w.newPublication("rule:kept_fee@v1", "1.5", "team"))
			o.form = string(must(w.t, text, err))
		}
		a := asked{operation: o, key: "kept-" + o.id}
		if a.first = a.again("all", a.key); a.first.StatusCode >= 300 || a.first.Header.Get("Idempotent-Replayed") != "" {
			w.t.Fatalf("%s: %d %s", o.id, a.first.StatusCode, a.first.text)
		}
		list = append(list, a)
	}
	if len(list) < 15 {
		w.t.Fatalf("only %d operations take a key", len(list))
	}
	return list
}

// again sends the request under a grant.
func (a *asked) again(grant, key string) reply {
	a.world.t.Helper()
	headers := []string{"Idempotency-Key", key, "Authorization", "Bearer " + a.world.token(grant, "")}
	if a.media != "" {
		headers = append(headers, "Content-Type", a.media)
	}
	return a.world.call(a.method, a.path, a.text(nil), headers...)
}

// different is the request with another text in its body, if it takes one.
func (a asked) different() (other asked, differs bool) {
	changed := *a.operation
	changed.body = slices.Clone(a.body)
	for i := range changed.body {
		if m := &changed.body[i]; a.form == "" && (m.kind == text64 || m.kind == text255) {
			m.raw, differs = `"other"`, true
		}
	}
	a.operation = &changed
	return a, differs
}

// repeats reports whether a reply is the first one's, secrets apart.
func (a *asked) repeats(r reply) bool {
	if r.StatusCode != a.first.StatusCode || r.Header.Get("Idempotent-Replayed") != "true" || r.Header.Get("Location") != a.first.Header.Get("Location") {
		return false
	}
	if a.first.body["secret"] == nil {
		return r.text == a.first.text
	}
	first, again := maps.Clone(a.first.body), maps.Clone(r.body)
	message, _ := again["message"].(string)
	if secret, there := again["secret"]; secret != nil || !there || !strings.Contains(message, "/secrets") || strings.Contains(r.text, "whsec_") {
		return false
	}
	for _, name := range []string{"secret", "message"} {
		delete(first, name)
		delete(again, name)
	}
	return reflect.DeepEqual(first, again)
}

// recorded is how many entries of a type the audit record has.
func (w *world) recorded(kind string) (n int) {
	w.t.Helper()
	for key, value := range dump(w.t, w.redis) {
		if strings.HasSuffix(key, w.vars["org"]+":audit") {
			n += strings.Count(value, `"type":"`+kind+`"`)
		}
	}
	return n
}

// TestRepeatsBelongToTheirClient: whatever takes a key answers a repeat to the
// client that used it, once the grant allows the request now, without secrets and
// with an entry in the audit record; to another client it is used up, whatever
// its body, and nothing happens.
func TestRepeatsBelongToTheirClient(t *testing.T) {
	w := newWorld(t)
	for _, a := range w.repeatable() {
		entries := w.recorded("request.repeated")
		if r := a.again("all", a.key); !a.repeats(r) {
			t.Errorf("%s: repeated: %d %s\nis not %s", a.id, r.StatusCode, r.text, a.first.text)
		}
		if n := w.recorded("request.repeated") - entries; n != 1 {
			t.Errorf("%s: %d audit entries of a repeat", a.id, n)
		}
		w.token("twin", "")
		before := dump(t, w.redis).without()
		w.want(a.again("twin", a.key), 422, "idempotency_key_reused")
		if other, differs := a.different(); differs {
			w.want(other.again("twin", a.key), 422, "idempotency_key_reused")
		}
		if after := dump(t, w.redis).without(); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: another client's use of the key changed something", a.id)
		}
		for _, grant := range []string{"eur_only", "elsewhere"} {
			repeated, fresh := a.again(grant, a.key), a.again(grant, "fresh-"+grant+a.id)
			if fresh.StatusCode == 403 || fresh.StatusCode == 404 {
				w.want(repeated, fresh.StatusCode, w.get(fresh, "code"))
			} else if !a.repeats(repeated) {
				t.Errorf("%s under %s, which is allowed it: %d %s", a.id, grant, repeated.StatusCode, repeated.text)
			}
		}
	}
}

// TestRepeatsOfTheReleaseBefore: its records name no client. They are answered to
// whoever may make the request, without the secret that they hold.
func TestRepeatsOfTheReleaseBefore(t *testing.T) {
	server := redistest.Single(t)
	w := newWorldOn(t, server.URL, newRecorder(t))
	check(t, w.store.WriteLayout(t.Context(), rediskv.Together)) // earlier releases keep every answer whole
	kept, sealed := w.repeatable(), 0
	for key, value := range dump(t, w.redis) {
		if !strings.Contains(key, w.vars["org"]+":idem:") {
			continue
		}
		lines := strings.SplitN(strings.TrimPrefix(value, "string "), "\n", 5)
		// That release reads new records, too: five lines, the second the
		// fingerprint, and what had a secret sealed.
		if status, err := strconv.Atoi(lines[2]); err != nil || status < 200 || len(lines[1]) != 64 {
			t.Errorf("not readable for the release before: %q", value)
		}
		lines[0], _, _ = strings.Cut(lines[0], " ")
		_, lines[0], _ = strings.Cut(lines[0], "/") // it has no checksum
		for _, a := range kept {
			place := "answer/" + w.vars["org"] + ":" + map[string]string{"createWebhook": "webhooks.create", "rotateWebhookSecrets": "webhooks.rotate"}[a.id] + "/" + a.key
			if body, err := newVault(t).Open(place, []byte(lines[4])); err == nil {
				var w map[string]any
				check(t, json.Unmarshal(body, &w))
				delete(w, "message")
				w["secret"] = a.first.body["secret"]
				body, err := json.Marshal(w, json.Deterministic(true))
				old, err := newVault(t).Seal(strings.NewReader(strings.Repeat("n", 64)), place, must(t, body, err))
				lines[4] = string(must(t, old, err))
				sealed++
			}
		}
		check(t, server.Command("SET", key, strings.Join(lines, "\n"), "KEEPTTL"))
	}
	if sealed != 2 {
		t.Errorf("%d sealed answers", sealed)
	}
	for _, a := range kept {
		for _, grant := range []string{"all", "twin"} {
			if r := a.again(grant, a.key); !a.repeats(r) {
				t.Errorf("%s to %s: %d %s\nis not %s", a.id, grant, r.StatusCode, r.text, a.first.text)
			}
		}
		repeated, fresh := a.again("kiosk", a.key), a.again("kiosk", "fresh-"+a.id)
		if fresh.StatusCode == 403 || fresh.StatusCode == 404 {
			w.want(repeated, fresh.StatusCode, w.get(fresh, "code"))
		}
	}
}

// TestRepeatsOfWhatIsOver: a request that cannot be made any more is repeated all
// the same, to a grant that reaches what it was about.
func TestRepeatsOfWhatIsOver(t *testing.T) {
	w := newWorld(t)
	call := func(grant, method, path, body, key string) reply {
		return w.call(method, path, body, "Authorization", "Bearer "+w.token(grant, ""), "Idempotency-Key", key)
	}
	hook := w.get(w.want(call("eur_only", "POST", "/v1/webhooks", `{"url":"https://shop.example/hooks"}`, "make"), 201, ""), "id")
	wide := w.get(w.want(call("all", "POST", "/v1/webhooks", `{"url":"https://shop.example/hooks"}`, "make-wide"), 201, ""), "id")
	text, err := json.Marshal(w.newPublication("rule:kept_fee@v1", "1.5", "team"))
	w.want(call("all", "POST", "/v1/rules", string(must(t, text, err)), "publish"), 201, "")
	requests := []struct{ grant, path, body, key string }{
		{"eur_only", "/v1/webhooks/" + hook + "/secrets", "", "once"},
		{"eur_only", "/v1/webhooks/" + hook + "/test", "", "once"},
		{"eur_only", "/v1/rule-sets/" + w.vars["eur_rules"] + "/activations", `{"rule":"rule:kept_fee@v1","adds":true,"at":"2026-03-02T10:00:00Z"}`, "once"},
		{"all", "/v1/webhooks/" + wide + "/secrets", "", "wide"}, // of all accounts, those to come included
		{"all", "/v1/webhooks/" + wide + "/test", "", "wide"},
	}
	for _, r := range requests {
		if first := call(r.grant, "POST", r.path, r.body, r.key); first.StatusCode >= 300 {
			t.Fatal(first.text)
		}
	}
	w.want(w.call("DELETE", "/v1/webhooks/"+hook, ""), 200, "")
	w.want(w.call("DELETE", "/v1/webhooks/"+wide, ""), 200, "")
	w.advance(2 * time.Hour)
	for _, r := range requests {
		for grant, repeated := range map[string]bool{"eur_only": r.grant == "eur_only", "all": true, "elsewhere": false} {
			got := call(grant, "POST", r.path, r.body, r.key)
			if (got.Header.Get("Idempotent-Replayed") == "true") != repeated || (got.StatusCode < 300) != repeated {
				t.Errorf("%s under %s: %d %s", r.path, grant, got.StatusCode, got.text)
			}
		}
	}
}
