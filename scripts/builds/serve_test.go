package builds_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tollgate"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/testkit"
)

// pair is two builds that serve and work on one Redis. A check asks one of them for
// what the other one has made; each is carried out both ways.
type pair struct {
	*site
	a, b *instance
}

// TestServe: `tollgate serve` and `tollgate work` of the previous build and of this
// one on one Redis.
func TestServe(t *testing.T) {
	s := newSite(t, needBuilds(t))
	s.provision(builds.previous)
	before, this := s.serve(builds.previous).authenticate(), s.serve(builds.this).authenticate()
	workers := []*process{s.work(builds.previous), s.work(builds.this)}
	probes := []string{workers[0].Ready(), workers[1].Ready()}
	for _, c := range []struct {
		name string
		run  func(*testing.T, pair)
	}{
		{"a token of one is good at the other", checkTokens},
		{"quotes", checkQuotes},
		{"a payment is captured at the other", checkCapture},
		{"a payment is canceled, reviewed and declined at the other", checkEnds},
		{"a repeat gets the first answer at the other", checkRepeats},
		{"lists and their cursors", checkLists},
		{"tickets run again", checkTickets},
		{"an export is downloaded at the other", checkExports},
		{"a rule is published, activated, priced and rolled back", checkRules},
		{"a cutoff preview", checkPreview},
		{"configuration and webhook endpoints", checkConfiguration},
		{"load on both at once", checkLoad},
		{"provisioned again with this build, then with the previous one", checkProvisioning},
		{"both are ready", checkReady},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Run("made by the previous one", func(t *testing.T) { c.run(t, pair{s, before, this}) })
			t.Run("made by this one", func(t *testing.T) { c.run(t, pair{s, this, before}) })
		})
	}
	for i, addr := range probes {
		resp, err := clitest.Remote.Get("http://" + addr + "/readyz")
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s is not ready: %d", workers[i].Name, resp.StatusCode)
		}
	}
	for _, p := range append(workers, before.Process, this.Process) {
		if found := p.Complaints(); len(found) > 0 {
			t.Errorf("%s complains:\n%s", p.Name, strings.Join(found, "\n"))
		}
	}
}

func checkTokens(t *testing.T, p pair) {
	borrowed := *p.b
	borrowed.token = p.a.token
	borrowed.get(t, "/v1/merchant-accounts")
}

func checkQuotes(t *testing.T, p pair) {
	body := `{"amount":"123.45","currency":"EUR","payee":"shop.example","merchant_account_id":"` + p.account() + `"}`
	x, y := p.a.do(t, "POST", "/v1/quotes", "", body), p.b.do(t, "POST", "/v1/quotes", "", body)
	if x.Text != y.Text {
		t.Errorf("%s\n%s", x.Text, y.Text)
	}
	paid := p.a.pay(t, "123.45", "")
	if total := x.at("total"); total == "" || paid.at("fee_total") != total {
		t.Errorf("a payment costs %s, the quote said %s", paid.at("fee_total"), total)
	}
}

func checkCapture(t *testing.T, p pair) {
	payment := p.a.pay(t, "80.00", `,"metadata":{"order":"1"},"reference":"r-1"`)
	path := "/v1/payments/" + payment.at("id")
	p.b.post(t, path+"/captures", `{"amount":"30.00","final_capture":false,"reference":"first"}`)
	p.a.post(t, path+"/captures", `{"amount":"20.00","final_capture":false}`)
	last := p.b.post(t, path+"/captures", ``)
	if got := last.at("payment.status") + " " + last.at("payment.amount_captured"); got != "captured 80.00" {
		t.Errorf("it is %s", got)
	}
	same(t, path, p.a, p.b)
	same(t, "/v1/tickets/"+payment.at("ticket_id"), p.a, p.b)
	same(t, "/v1/transactions?payment_id="+payment.at("id"), p.a, p.b)
}

func checkEnds(t *testing.T, p pair) {
	canceled, released := p.a.pay(t, "10.00", ""), p.a.pay(t, "10.00", "")
	p.b.post(t, "/v1/payments/"+canceled.at("id")+"/cancel", `{"reason":"changed their mind"}`)
	p.b.post(t, "/v1/payments/"+released.at("id")+"/captures", `{"amount":"4.00","final_capture":false}`)
	p.a.post(t, "/v1/payments/"+released.at("id")+"/cancel", ``)
	approved, rejected := p.a.pay(t, "600.00", ""), p.a.pay(t, "600.00", "")
	if approved.at("status") != "requires_review" {
		t.Errorf("it is %s", approved.at("status"))
	}
	p.b.post(t, "/v1/payments/"+approved.at("id")+"/reviews", `{"decision":"approve"}`)
	p.b.post(t, "/v1/payments/"+rejected.at("id")+"/reviews", `{"decision":"reject","note":"no"}`)
	p.a.post(t, "/v1/payments/"+approved.at("id")+"/captures", ``)
	declined, err := p.a.send("POST", "/v1/payments", rand.Text(), `{"amount":"1.00","currency":"EUR","payee":"deny.test","merchant_account_id":"`+p.account()+`"}`)
	must(t, err)
	if declined.StatusCode != http.StatusForbidden {
		t.Errorf("%d %s", declined.StatusCode, declined.Text)
	}
	for _, id := range []string{canceled.at("id"), released.at("id"), approved.at("id"), rejected.at("id"), declined.at("payment_id")} {
		same(t, "/v1/payments/"+id, p.a, p.b)
	}
	for _, a := range []answer{canceled, released, approved, rejected, declined} {
		same(t, "/v1/tickets/"+a.at("ticket_id"), p.a, p.b)
	}
}

func checkRepeats(t *testing.T, p pair) {
	body := `{"amount":"55.00","currency":"EUR","payee":"shop.example","merchant_account_id":"` + p.account() + `"}`
	account := p.a.pay(t, "55.00", "").at("id")
	for _, r := range []struct{ path, body string }{
		{"/v1/payments", body},
		{"/v1/payments", strings.Replace(body, "shop.example", "deny.test", 1)},
		{"/v1/payments/" + account + "/captures", `{"amount":"5.00","final_capture":false}`},
		{"/v1/payments/" + account + "/cancel", `{"reason":"enough"}`},
		{"/v1/exports/preview", `{"dataset":"payments"}`},
		{"/v1/webhooks", `{"url":"https://hooks.example.com/1","event_types":["payment.*"],"signature_scheme":"v1a"}`},
	} {
		key := rand.Text()
		first, err := p.a.send("POST", r.path, key, r.body)
		must(t, err)
		again, err := p.b.send("POST", r.path, key, r.body)
		must(t, err)
		if again.StatusCode != first.StatusCode || again.Text != first.Text || again.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %s\nthen %d %s", r.path, first.StatusCode, first.Text, again.StatusCode, again.Text)
		}
		other, err := p.b.send("POST", r.path, key, strings.Replace(r.body, `{"`, `{"metadata":{"a":"b"},"`, 1))
		must(t, err)
		if r.path == "/v1/payments" && other.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("another request with its key: %d %s", other.StatusCode, other.Text)
		}
	}
	// An endpoint counts against a quota.
	for _, id := range all(t, "/v1/webhooks?limit=100", p.a) {
		p.b.do(t, "DELETE", "/v1/webhooks/"+id, "", "")
	}
}

func checkLists(t *testing.T, p pair) {
	for range 3 {
		p.a.pay(t, "1.00", "")
		p.b.pay(t, "2.00", "")
	}
	for _, path := range []string{
		"/v1/payments?limit=7", "/v1/payments?status=authorized&limit=2", "/v1/transactions?limit=7", "/v1/transactions?type=capture&limit=2",
		"/v1/events?limit=7", "/v1/events?order=desc&types=payment.*&limit=9", "/v1/exports?limit=1", "/v1/merchant-accounts?limit=1", "/v1/perimeters?limit=1",
	} {
		one, other, mixed := all(t, path, p.a), all(t, path, p.b), all(t, path, p.a, p.b)
		if len(one) == 0 || !slices.Equal(one, other) || !slices.Equal(one, mixed) {
			t.Errorf("%s: %v\n%v\n%v", path, one, other, mixed)
		}
		same(t, path, p.a, p.b)
	}
	event := p.a.get(t, "/v1/events?order=desc&limit=1").at("data.0.id")
	same(t, "/v1/events/"+event, p.a, p.b)
	// A listing that waits at one hears of what happens at the other.
	cursor := p.a.get(t, "/v1/events?after=latest").at("next_cursor")
	heard := make(chan answer, 1)
	go func() {
		a, _ := p.a.send("GET", "/v1/events?wait=15&cursor="+cursor, "", "")
		heard <- a
	}()
	id := p.b.pay(t, "3.00", "").at("id")
	if a := <-heard; a.at("data.0.data.payment_id") != id {
		t.Errorf("it heard %s, not of %s", a.Text, id)
	}
}

// checkTickets runs the tickets of payments again, in every form that they have,
// with the command of each build against the other's instance.
func checkTickets(t *testing.T, p pair) {
	payment := p.a.pay(t, "70.00", "")
	p.b.post(t, "/v1/payments/"+payment.at("id")+"/captures", `{"amount":"30.00","final_capture":false}`)
	p.a.post(t, "/v1/payments/"+payment.at("id")+"/captures", ``)
	declined, err := p.a.send("POST", "/v1/payments", rand.Text(), `{"amount":"1.00","currency":"EUR","payee":"deny.test","merchant_account_id":"`+p.account()+`"}`)
	must(t, err)
	for _, ticket := range []string{payment.at("ticket_id"), p.a.pay(t, "900.00", "").at("ticket_id"), declined.at("ticket_id")} {
		p.a.verify(t, p.b, ticket)
		p.a.verify(t, p.a, ticket)
	}
}

// verify is `tollgate rule verify` of this build, against another's instance.
func (in *instance) verify(t *testing.T, at *instance, ticket string) string {
	t.Helper()
	return in.build.Run(t, at.environment(), "rule", "verify", ticket)
}

// environment is that of the commands, against an instance.
func (in *instance) environment() []string {
	s := in.site
	return []string{
		"TOLLGATE_URL=" + in.base, "TOLLGATE_ISSUER=" + in.issuer, "TOLLGATE_CLIENT_ID=" + s.ids[tollgate.PrefixClient], "TOLLGATE_CLIENT_JWK=" + string(s.key),
		"TOLLGATE_RULE_SIGNER=sig_site", "TOLLGATE_RULE_KEY=" + string(s.signer),
	}
}

func checkExports(t *testing.T, p pair) {
	for _, dataset := range []string{"payments", "transactions", "tickets", "events", "audit"} {
		for _, format := range []string{"csv", "ndjson"} {
			job := p.a.post(t, "/v1/exports/preview", `{"dataset":"`+dataset+`","format":"`+format+`"}`).at("id")
			awaitExport(t, p.b, job)
			same(t, "/v1/exports/"+job, p.a, p.b)
			same(t, "/v1/exports/"+job+"/file", p.a, p.b)
		}
	}
	// One is dropped at the other.
	job := p.a.post(t, "/v1/exports/preview", `{"dataset":"payments"}`).at("id")
	awaitExport(t, p.a, job)
	p.b.do(t, "DELETE", "/v1/exports/"+job, "", "")
	if status := p.a.get(t, "/v1/exports/"+job).at("status"); status != "expired" {
		t.Errorf("it is %s", status)
	}
}

func awaitExport(t *testing.T, in *instance, job string) {
	t.Helper()
	var a answer
	testkit.Eventually(t, "the export is made", func() bool {
		a = in.get(t, "/v1/exports/"+job)
		return a.at("status") != "pending" && a.at("status") != "running"
	})
	if a.at("status") != "succeeded" || a.at("result.rows") == "0" {
		t.Fatalf("%s", a.Text)
	}
}

func checkPreview(t *testing.T, p pair) {
	body := `{"merchant_account_id":"` + p.account() + `","proposed":{"cutoff_time":"13:00"},"effective_date":"2026-01-01","window":{"from":"2026-11-01T00:00:00Z","to":"2026-12-31T00:00:00Z"}}`
	x, y := p.a.do(t, "POST", "/v1/cutoffs/preview", "", body), p.b.do(t, "POST", "/v1/cutoffs/preview", "", body)
	for _, member := range []string{"current", "proposed", "summary", "payouts", "moves", "warnings", "window"} {
		if x.at(member) == "" || x.at(member) != y.at(member) {
			t.Errorf("%s: %s\n%s", member, x.at(member), y.at(member))
		}
	}
}

func checkConfiguration(t *testing.T, p pair) {
	hook := p.a.post(t, "/v1/webhooks", `{"url":"https://hooks.example.com/2","event_types":["payout.*"],"signature_scheme":"both"}`)
	path := "/v1/webhooks/" + hook.at("id")
	p.b.do(t, "PATCH", path, "", `{"description":"changed","event_types":["payout.paid"]}`)
	same(t, path, p.a, p.b)
	p.b.post(t, path+"/secrets", `{"overlap_seconds":60}`)
	p.a.do(t, "PATCH", path, "", `{"status":"disabled"}`)
	same(t, path, p.a, p.b)
	same(t, "/v1/webhooks", p.a, p.b)
	p.b.do(t, "DELETE", path, "", "")
	for _, path := range []string{
		"/v1/organizations/" + p.ids[tollgate.PrefixOrganization], "/v1/legal-entities/" + p.ids[tollgate.PrefixLegalEntity], "/v1/grants/" + p.ids[tollgate.PrefixGrant],
		"/v1/merchant-accounts/" + p.account(), "/v1/merchant-accounts", "/v1/perimeters/" + p.ids[tollgate.PrefixPerimeter], "/v1/perimeters",
	} {
		same(t, path, p.a, p.b)
	}
}

// checkLoad lets clients capture the same payments at both instances at once.
func checkLoad(t *testing.T, p pair) {
	const clients, payments = 8, 6
	var all sync.WaitGroup
	var mu sync.Mutex
	sum := map[string]int64{} // captured, in cents, by payment
	for range payments {
		id := p.a.pay(t, "50.00", "").at("id")
		for c := range clients {
			in := []*instance{p.a, p.b}[c%2]
			all.Go(func() {
				for i := range 4 {
					amount := fmt.Sprintf("%d.%02d", 2+i, c)
					a, err := in.send("POST", "/v1/payments/"+id+"/captures", rand.Text(), `{"amount":"`+amount+`","final_capture":false}`)
					switch {
					case err != nil:
						t.Error(err)
					case a.StatusCode == http.StatusCreated:
						mu.Lock()
						sum[id] += cents(t, amount)
						mu.Unlock()
					case a.StatusCode != http.StatusUnprocessableEntity && a.StatusCode != http.StatusConflict:
						t.Errorf("%s: %d %s", in.build.Name, a.StatusCode, a.Text)
					}
					if ready, err := in.send("GET", "/readyz", "", ""); err != nil || ready.StatusCode != http.StatusOK {
						t.Errorf("%s: %v %s", in.build.Name, err, ready.Text)
					}
				}
			})
		}
	}
	all.Wait()
	for id, captured := range sum {
		a := p.b.get(t, "/v1/payments/"+id)
		if got := cents(t, a.at("amount_captured")); got != captured || got > cents(t, a.at("amount")) {
			t.Errorf("%s: %d cents were acknowledged: %s", id, captured, a.Text)
		}
		same(t, "/v1/payments/"+id, p.a, p.b)
		same(t, "/v1/tickets/"+a.at("ticket_id"), p.a, p.b)
	}
	if len(sum) != payments {
		t.Errorf("%d of %d payments were captured", len(sum), payments)
	}
}

func cents(t *testing.T, amount string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.Replace(amount, ".", "", 1), 10, 64)
	must(t, err)
	return n
}

// checkProvisioning: the same file changes nothing, whoever wrote it before.
func checkProvisioning(t *testing.T, p pair) {
	before := p.a.get(t, "/v1/merchant-accounts").Text
	for _, b := range []*build{p.b.build, p.a.build, p.b.build} {
		file := filepath.Join(t.TempDir(), "site.yaml")
		must(t, os.WriteFile(file, []byte(p.provisioning(builds.previous)), 0o600))
		text := b.Run(t, p.env, "provision", "-f", file)
		if !strings.HasPrefix(text, "nothing to change") {
			t.Errorf("%s changes something: %s", b.Name, text)
		}
	}
	if after := p.a.get(t, "/v1/merchant-accounts").Text; after != before {
		t.Errorf("%s\nthen %s", before, after)
	}
	// A change by one is read by the other.
	file := filepath.Join(t.TempDir(), "site.yaml")
	name := "Europe " + rand.Text()
	must(t, os.WriteFile(file, []byte(strings.Replace(p.provisioning(builds.previous), "name: Europe", "name: "+name, 1)), 0o600))
	p.a.build.Run(t, p.env, "provision", "-f", file)
	testkit.Eventually(t, "the other knows the new name", func() bool { return p.b.get(t, "/v1/merchant-accounts/"+p.account()).at("name") == name })
	p.site.provision(p.b.build)
	// What one has written is the same to the other.
	version := len(all(t, "/v1/events?types=merchant_account.updated", p.a)) // another one each time
	must(t, os.WriteFile(file, []byte(strings.Replace(p.provisioning(builds.previous), "    perimeters:\n", fmt.Sprintf(
		"    perimeters:\n      - {id: %s, version: %d, constraints: {currencies: [EUR], payees_allowed: [\"*.example\"]}}\n", p.ids[tollgate.PrefixPerimeter], 1+version), 1)), 0o600))
	if text := p.a.build.Run(t, p.env, "provision", "-f", file); !strings.Contains(text, "created") {
		t.Errorf("no version is made: %s", text)
	}
	if text := p.b.build.Run(t, p.env, "provision", "-f", file); !strings.HasPrefix(text, "nothing to change") {
		t.Errorf("%s changes something: %s", p.b.build.Name, text)
	}
	testkit.Eventually(t, "and the old one again", func() bool { return p.a.get(t, "/v1/merchant-accounts/"+p.account()).at("name") == "Europe" })
}

func checkReady(t *testing.T, p pair) {
	if a := p.a.get(t, "/readyz"); a.at("status") != "ready" {
		t.Error(a.Text)
	}
	if ids := all(t, "/v1/events?types=integrity.failed", p.a); len(ids) > 0 {
		t.Errorf("integrity.failed: %v", ids)
	}
}
