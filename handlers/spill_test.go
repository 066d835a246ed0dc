package handlers_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv/testkit"
)

// secret notes what must be nowhere but with whom it was given.
func (w *world) secret(name, text string) {
	w.secrets = append(w.secrets, text)
	w.spill.Add(name, text)
}

// overheard holds an answer to what a client may read in it: no secret but the one that
// the request was for, which is noted.
func (w *world) overheard(r reply) {
	w.t.Helper()
	for _, name := range w.heard(r) {
		w.t.Errorf("%s %s answers with a secret: %s", r.Request.Method, r.Request.URL.Path, name)
	}
}

func (w *world) heard(r reply) []string {
	given := false
	for name, member := range map[string]string{"a webhook's secret": "secret", "an access token": "access_token"} {
		if text, ok := r.body[member].(string); ok && r.StatusCode < 300 && len(text) > 20 && r.Header.Get("Idempotent-Replayed") == "" {
			w.spill.Add(name, text)
			given = true
		}
	}
	if given {
		return nil
	}
	return w.spill.Found(fmt.Sprint(r.Header) + r.text)
}

// spilled looks for every secret of a world in all that it has written, at its end.
func (w *world) spilled() {
	var key struct {
		D string `json:"d"`
	}
	for name, jwk := range w.private {
		check(w.t, json.Unmarshal(jwk, &key))
		w.spill.Add("the private key of "+name, key.D)
	}
	check(w.t, json.Unmarshal(w.signing, &key))
	w.spill.Add("the signing key", key.D)
	for _, finding := range w.findings() {
		w.t.Error(finding)
	}
}

// findings are the places of a world that have a secret.
func (w *world) findings() (list []string) {
	look := func(where, text string) {
		for _, name := range w.spill.Found(text) {
			list = append(list, where+" has a secret: "+name)
		}
	}
	look("the log", w.log.String())
	look("what is observed", fmt.Sprint(w.observed.requests()))
	for key, value := range w.keyspaceLeft() {
		look("Redis", key)
		look(key, value)
	}
	return list
}

// keyspaceLeft is everything that Redis holds at the end of a test, where the test has
// not ended its Redis.
func (w *world) keyspaceLeft() keyspace {
	all := make(keyspace)
	for addr := range strings.SplitSeq(strings.TrimPrefix(w.redis, "redis://"), ",") {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_ = readKeyspace(conn, all)
		conn.Close()
	}
	return all
}

// TestSecretsNowhere plays every operation, rightly and wrongly. What that left behind is
// looked at by spilled, as of every world; here a secret is put into each place, and found.
func TestSecretsNowhere(t *testing.T) {
	w := newWorld(t)
	for _, o := range w.operations() {
		w.call(o.method, o.path, o.text(nil), o.headers()...)
		w.call(o.method, o.path, "{", o.headers()...) // an error says nothing either
	}
	hook := w.get(w.want(w.hook(""), 201, ""), "secret")
	token := w.token("all", "")
	planted := map[string]func(secret string){
		"the log":          func(secret string) { _, err := w.log.Write([]byte(`{"msg":"` + secret + `"}`)); check(t, err) },
		"what is observed": func(secret string) { w.observed.Request("GET /"+secret, 200, 0) },
		"Redis":            func(secret string) { check(t, command(t, w.redis, "SET", "key:"+secret, "1")) },
		"string":           func(secret string) { check(t, command(t, w.redis, "SET", "string", "a "+secret)) },
		"hash":             func(secret string) { check(t, command(t, w.redis, "HSET", "hash", secret, "1")) },
		"list":             func(secret string) { check(t, command(t, w.redis, "RPUSH", "list", "a", secret)) },
		"zset":             func(secret string) { check(t, command(t, w.redis, "ZADD", "zset", "1", "b/"+secret)) },
		"stream":           func(secret string) { check(t, command(t, w.redis, "XADD", "stream", "*", "b", `{"a":"`+secret+`"}`)) },
	}
	for where, plant := range planted {
		for _, secret := range []string{hook, token, base64.StdEncoding.EncodeToString([]byte("a" + token)), fmt.Sprintf("%x", hook)} {
			plant(secret)
			if found := w.findings(); !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, where+" has") }) {
				t.Errorf("%.10s… in %s is not found: %q", secret, where, found)
			}
			w.log, w.observed = new(testkit.Log), observe()
			for _, key := range []string{"key:" + secret, "string", "hash", "list", "zset", "stream"} {
				check(t, command(t, w.redis, "DEL", key))
			}
		}
	}
	for name, r := range map[string]reply{
		"an error": {Response: &http.Response{StatusCode: 400}, text: `{"message":"` + token + `"}`},
		"a header": {Response: &http.Response{StatusCode: 200, Header: http.Header{"Location": {"/?t=" + token}}}},
		"a repeat": {Response: &http.Response{StatusCode: 201, Header: http.Header{"Idempotent-Replayed": {"true"}}}, text: hook, body: map[string]any{"secret": hook}},
	} {
		if len(w.heard(r)) == 0 {
			t.Errorf("a secret in %s is not found", name)
		}
	}
}
