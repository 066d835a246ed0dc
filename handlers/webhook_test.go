package handlers_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// hook makes an endpoint; more are further members of its body.
func (w *world) hook(more string, headers ...string) reply {
	w.t.Helper()
	return w.call("POST", "/v1/webhooks", `{"url":"https://shop.example/hooks"`+more+`}`, headers...)
}

// signingKeys are the keys of an endpoint as the worker will read them.
func (w *world) signingKeys(id string) (e *tollgate.StoredWebhook, keys []tollgate.WebhookKey) {
	w.t.Helper()
	e, err := w.store.Webhook(w.t.Context(), rediskv.Caller{Organization: w.vars["org"]}, id)
	must(w.t, e, err)
	for _, k := range e.Sealed {
		secret, err := newVault(w.t).Open(fmt.Sprintf("%s/%d/%s", id, k.Version, k.Scheme), k.Secret)
		keys = append(keys, tollgate.WebhookKey{Version: k.Version, Scheme: k.Scheme, Secret: must(w.t, secret, err)})
	}
	return e, keys
}

// What the owner was shown verifies what the worker signs, and is nowhere in
// Redis.
func TestWebhookSecrets(t *testing.T) {
	w := newWorldOn(t, redistest.URL(t), newRecorder(t))
	created := w.want(w.hook(`,"signature_scheme":"both"`, "Idempotency-Key", "make"), 201, "")
	id := w.get(created, "id")
	rotated := w.want(w.call("POST", "/v1/webhooks/"+id+"/secrets", "", "Idempotency-Key", "rotate"), 201, "")
	w.want(w.call("PATCH", "/v1/webhooks/"+id, `{"signature_scheme":"v1a"}`), 200, "")
	patched := w.want(w.call("PATCH", "/v1/webhooks/"+id, `{"signature_scheme":"both"}`), 200, "")
	var shown []string
	for _, r := range []reply{created, rotated, patched} {
		shown = append(shown, w.get(r, "secret"))
	}
	for key, value := range dump(t, w.redis) {
		for _, secret := range shown {
			bare := strings.TrimPrefix(secret, "whsec_")
			raw, err := base64.StdEncoding.DecodeString(bare)
			if must(t, raw, err); strings.Contains(value, bare) || strings.Contains(value, string(raw)) {
				t.Errorf("%s holds a secret", key)
			}
		}
	}
	e, keys := w.signingKeys(id)
	body := []byte(`{"a":1}`)
	header := delivery.Signatures(keys, "evt_1", 1, body)
	for _, k := range e.SigningKeys {
		if k.PublicKey != nil {
			shown = append(shown, *k.PublicKey)
		}
	}
	for _, key := range shown[2:] { // of the other two nothing is left
		if err := delivery.VerifySignature(key, "evt_1", "1", header, body); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if len(shown) != 5 || len(keys) != 3 {
		t.Errorf("shown %d, sealed %d", len(shown), len(keys))
	}
	// A repeat shows the same without the secret.
	for path, first := range map[string]reply{"/v1/webhooks": created, "/v1/webhooks/" + id + "/secrets": rotated} {
		body, key := "", "rotate"
		if path == "/v1/webhooks" {
			body, key = `{"url":"https://shop.example/hooks","signature_scheme":"both"}`, "make"
		}
		again := w.want(w.call("POST", path, body, "Idempotency-Key", key), 201, "")
		if again.Header.Get("Idempotent-Replayed") != "true" || !strings.Contains(again.text, `"secret":null`) {
			t.Errorf("not a repeat without its secret: %s", again.text)
		}
		for _, r := range []reply{first, again} {
			delete(r.body, "secret")
			delete(r.body, "message")
		}
		if !reflect.DeepEqual(first.body, again.body) {
			t.Errorf("%s\nis not\n%s", again.text, first.text)
		}
	}
}

// After any sequence of rotations and changes of scheme, each chosen scheme has
// a key that signs and no other has, at most three versions live, no number
// was given twice, and a v1 key was shown exactly when it was made.
func TestWebhookKeysInEverySequence(t *testing.T) {
	w := newWorldOn(t, redistest.URL(t), newRecorder(t))
	random := rand.New(rand.NewPCG(1, 2))
	made := w.want(w.hook(""), 201, "")
	id := w.get(made, "id")
	known := map[string][]byte{}
	for step := range 150 {
		r := made
		switch n := random.IntN(8); {
		case step == 0:
		case n < 3:
			overlap := []int{0, 60, 3600, 604800}[random.IntN(4)]
			r = w.want(w.call("POST", "/v1/webhooks/"+id+"/secrets", fmt.Sprintf(`{"overlap_seconds":%d}`, overlap)), 201, "")
		case n < 6:
			scheme := []string{"v1", "v1a", "both"}[random.IntN(3)]
			r = w.want(w.call("PATCH", "/v1/webhooks/"+id, `{"signature_scheme":"`+scheme+`"}`), 200, "")
		default:
			w.advance(time.Duration(random.IntN(4000)) * time.Second)
			continue
		}
		e, keys := w.signingKeys(id)
		now := tollgate.At(w.now())
		newV1 := ""
		for _, k := range keys {
			name := fmt.Sprint(k.Version, k.Scheme)
			if known[name] == nil && k.Scheme == tollgate.SignatureV1 {
				newV1 = k.Text()
			}
			if known[name] != nil && string(known[name]) != string(k.Secret) {
				t.Fatalf("step %d: %s was another key", step, name)
			}
			known[name] = k.Secret
		}
		if shown, _ := r.body["secret"].(string); shown != newV1 {
			t.Fatalf("step %d: shown %q, made %q", step, shown, newV1)
		}
		live := map[int]bool{}
		var schemes []tollgate.SignatureScheme
		for _, k := range e.SigningKeys {
			if k.Live(now) {
				live[k.Version] = true
				schemes = append(schemes, k.Scheme)
			}
		}
		slices.Sort(schemes)
		if schemes = slices.Compact(schemes); !slices.Equal(schemes, e.SignatureScheme.Schemes()) || len(live) > tollgate.MaxSigningKeys || len(keys) != len(e.SigningKeys) {
			t.Fatalf("step %d: scheme %s, keys %+v, sealed %d", step, e.SignatureScheme, e.SigningKeys, len(keys))
		}
	}
}

// Racing twins of one key make one endpoint; racing changes are all made, with
// an event each.
func TestRacingWebhooks(t *testing.T) {
	w := newWorldOn(t, redistest.URL(t), newRecorder(t))
	w.token("all", "")
	race := func(n int, ask func(i int) (method, path, body, key string)) (answers []string) {
		var wait sync.WaitGroup
		answers = make([]string, n)
		for i := range n {
			method, path, body, key := ask(i)
			req := w.request(method, path, body, "Idempotency-Key", key)
			wait.Go(func() {
				r, err := w.try(req)
				if err != nil || r.StatusCode > 201 {
					t.Errorf("%v %d %s", err, r.StatusCode, r.text)
				}
				answers[i] = r.text
			})
		}
		wait.Wait()
		return answers
	}
	twins := race(16, func(int) (string, string, string, string) {
		return "POST", "/v1/webhooks", `{"url":"https://shop.example/hooks"}`, "twin"
	})
	slices.Sort(twins)
	shown := slices.DeleteFunc(slices.Clone(twins), func(text string) bool { return strings.Contains(text, `"secret":null`) })
	if twins = slices.Compact(twins); len(twins) != 2 || len(shown) != 1 { // the first has the secret
		t.Fatalf("%d different answers, %d with the secret", len(twins), len(shown))
	}
	list := w.want(w.call("GET", "/v1/webhooks", ""), 200, "").body["data"].([]any)
	if len(list) != 1 {
		t.Fatalf("%d endpoints", len(list))
	}
	id := list[0].(map[string]any)["id"].(string)
	race(16, func(i int) (string, string, string, string) {
		if i%2 == 0 {
			return "PATCH", "/v1/webhooks/" + id, fmt.Sprintf(`{"description":"change %d"}`, i), ""
		}
		return "POST", "/v1/webhooks/" + id + "/secrets", "", fmt.Sprint("rotation ", i)[len("rotation "):]
	})
	count := map[string]int{}
	for _, e := range w.want(w.call("GET", "/v1/events?types=webhook_endpoint.*&limit=100", ""), 200, "").body["data"].([]any) {
		count[e.(map[string]any)["type"].(string)]++
	}
	if count["webhook_endpoint.created"] != 1 || count["webhook_endpoint.updated"] != 8 || count["webhook_endpoint.secret_rotated"] != 8 {
		t.Errorf("events %v", count)
	}
	if e, _ := w.signingKeys(id); e.SigningKeys[len(e.SigningKeys)-1].Version != 9 {
		t.Errorf("%+v", e.SigningKeys)
	}
}

func TestTooManyWebhooks(t *testing.T) {
	w := newWorldOn(t, redistest.URL(t), newRecorder(t))
	first := w.want(w.hook("", "Idempotency-Key", "0"), 201, "")
	for range 50 - 1 {
		w.want(w.hook(""), 201, "")
	}
	w.want(w.hook("", "Idempotency-Key", "101"), 422, "quota_exceeded")
	if again := w.want(w.hook("", "Idempotency-Key", "0"), 201, ""); w.get(again, "id") != w.get(first, "id") || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s", again.text)
	}
	seen := map[string]bool{}
	path := "/v1/webhooks?limit=15"
	for range 4 {
		r := w.want(w.call("GET", path, ""), 200, "")
		for _, e := range r.body["data"].([]any) {
			seen[e.(map[string]any)["id"].(string)] = true
		}
		cursor, _ := r.body["next_cursor"].(string)
		path = "/v1/webhooks?limit=15&cursor=" + cursor
	}
	if len(seen) != 50 {
		t.Errorf("listed %d", len(seen))
	}
	w.want(w.call("DELETE", "/v1/webhooks/"+w.get(first, "id"), ""), 200, "")
	w.want(w.hook(""), 201, "")
}
