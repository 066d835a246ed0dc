package builds_test

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestCompact: a build that does not know the layout compact, or dense, meets what was written in it,
// which operators are told not to have happen. It refuses what it cannot read with an error
// and changes nothing of it; it never answers with anything else. Its own payments go on,
// and this build reads them.
func TestCompact(t *testing.T) {
	t.Run("together", func(t *testing.T) { meetsNewer(t, func() *build { return builds.together }) })
	t.Run("compact", func(t *testing.T) { meetsNewer(t, func() *build { return builds.compact }) })
}

func meetsNewer(t *testing.T, of func() *build) {
	s := newSite(t, needBuilds(t))
	s.provision(builds.this) // the first to use this Redis
	this := s.serve(builds.this).authenticate()
	type request struct{ path, key, body, answer string }
	var repeats []request
	ask := func(path, body string) answer {
		key := rand.Text()
		a := this.do(t, "POST", path, key, body)
		repeats = append(repeats, request{path, key, body, a.Text})
		return a
	}
	var payments, paths []string
	for range 5 {
		id := ask("/v1/payments", `{"amount":"80.00","currency":"EUR","payee":"shop.example","merchant_account_id":"`+s.account()+`"}`).at("id")
		payments = append(payments, id)
	}
	for i, id := range payments {
		at := "/v1/payments/" + id
		if i > 0 {
			ask(at+"/captures", `{"amount":"30.00","final_capture":false}`)
		}
		if i == 2 {
			ask(at+"/captures", `{}`)
		}
		paths = append(paths, at, "/v1/tickets/"+this.get(t, at).at("ticket_id"), "/v1/transactions?payment_id="+id)
	}
	events := func() []string { return all(t, "/v1/events?types=payment.*", this) } // the earlier one adds what it cannot read
	before, logged := map[string]string{}, events()
	for _, path := range paths {
		before[path] = this.get(t, path).Text
	}

	earlier := s.serve(of()).authenticate()
	refused := 0
	try := func(what, method, path, key, body, want string) {
		a, err := earlier.send(method, path, key, body)
		must(t, err)
		switch {
		case a.StatusCode >= http.StatusInternalServerError:
			refused++
		case want != "" && a.Text == want, strings.Contains(a.Text, `"damaged":true`):
		default:
			t.Errorf("%s: %s %s: %d %s\nit is %s", what, method, path, a.StatusCode, a.Text, want)
		}
	}
	for _, r := range repeats {
		try("a repeat", "POST", r.path, r.key, r.body, r.answer)
	}
	for _, path := range paths {
		try("a reading", "GET", path, "", "", before[path])
	}
	for _, id := range payments {
		at := "/v1/payments/" + id
		try("a change", "POST", at+"/captures", rand.Text(), `{"amount":"1.00","final_capture":false}`, "")
		try("a change", "POST", at+"/cancel", rand.Text(), `{"reason":"late"}`, "")
	}
	if refused < len(repeats) {
		t.Errorf("only %d requests were refused", refused)
	}
	for _, path := range paths {
		if is := this.get(t, path).Text; is != before[path] {
			t.Errorf("%s is\n%s\nand was\n%s", path, is, before[path])
		}
	}
	for _, r := range repeats {
		if is := this.do(t, "POST", r.path, r.key, r.body).Text; is != r.answer {
			t.Errorf("%s is answered with\n%s\nand was with\n%s", r.path, is, r.answer)
		}
	}

	if is := events(); !slices.Equal(is, logged) {
		t.Errorf("the events are %v, and were %v", is, logged)
	}

	at := "/v1/payments/" + earlier.pay(t, "80.00", "").at("id")
	if a := this.post(t, at+"/captures", `{}`); a.at("payment.status") != "captured" || this.get(t, at).at("status") != "captured" {
		t.Errorf("a payment of the earlier one is %s", a.Text)
	}
	if found := this.Complaints(); len(found) > 0 {
		t.Errorf("this build complains:\n%s", strings.Join(found, "\n"))
	}
	builds.this.Run(t, s.env, "check")
}
