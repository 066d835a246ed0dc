package handlers_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/share/fair"
	"tollgate/rediskv/redistest"
)

// TestTenant is the greedy tenant's process.
func TestTenant(t *testing.T) { fair.Tenant(t) }

// neighbours are the world's two organizations: the first is modest, the other
// is greedy, with four clients.
type neighbours struct {
	*world
	modest *fair.Client
	key    int
}

// TestFair measures what the modest one notices of the other.
func TestFair(t *testing.T) {
	fair.Wanted(t)
	n := &neighbours{world: newWorldOn(t, redistest.URL(t), newRecorder(t))}
	n.rules.Limit(1) // of a tenant with many rules in use, each has to be compiled
	n.serveWith(func(c *handlers.Config) { c.Log = slog.New(slog.DiscardHandler) })
	n.modest = fair.NewClient(t, strings.TrimPrefix(n.url, "http://"))
	n.following()
	n.fill("", 300)
	n.fill("other_", 3000)
	quote := func(account string) string {
		return fmt.Sprintf(`{"merchant_account_id":%q,"amount":"100.00","currency":"EUR","payee":"shop.example"}`, n.vars[account])
	}
	preview := func(account string) string {
		return fmt.Sprintf(`{"merchant_account_id":%q,"proposed":{"cutoff_time":"12:00"}}`, n.vars[account])
	}
	const search = "/v1/payments?payee=nobody.example&limit=5"
	file, large := n.file(""), n.file("other_")
	fair.Header()
	n.measure("list", "GET", search, "", 200, n.load(32, n.raw("GET", search, "")))
	n.measure("preview", "POST", "/v1/cutoffs/preview", preview("wide"), 200, n.load(32, n.raw("POST", "/v1/cutoffs/preview", preview("other_wide"))))
	n.measure("export download", "GET", file, "", 200, n.load(32, n.raw("GET", large, "")[:2]))
	n.measure("page", "GET", "/v1/merchant-accounts", "", 200, n.load(32, n.raw("GET", "/v1/merchant-accounts", "")))
	n.measure("quote", "POST", "/v1/quotes", quote("wide"), 200, n.load(32, n.raw("POST", "/v1/quotes", quote("other_wide"))))
	n.measure("create payment", "POST", "/v1/payments", quote("wide"), 201, n.load(32, n.raw("POST", "/v1/payments", quote("other_wide"))))
	n.polls(quote("wide"), quote("other_wide"))
	n.publishing()
	n.compiling()
}

// fill makes payments that are captured at once.
func (n *neighbours) fill(prefix string, payments int) {
	body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"100.00","currency":"EUR","payee":"shop.example"}`, n.vars[prefix+"wide"])
	var answers []<-chan fair.Answer
	for range payments {
		if answers = append(answers, n.send(prefix+"all", "POST", "/v1/payments", body)); len(answers) == 8 {
			for _, a := range answers {
				_, err := answeredWith(a, 201)
				check(n.t, err)
			}
			answers = nil
		}
	}
}

// file makes an export and says where its file is.
func (n *neighbours) file(prefix string) (path string) {
	r := n.want(n.call("POST", "/v1/exports/preview", `{"dataset":"transactions","format":"ndjson"}`, "Authorization", "Bearer "+n.token(prefix+"all", "")), 202, "")
	check(n.t, n.exports())
	return "/v1/exports/" + n.get(r, "id") + "/file"
}

// send has the modest one send a request.
func (n *neighbours) send(grant, method, path, body string) <-chan fair.Answer {
	n.key++
	return n.modest.Send(strings.ReplaceAll(n.text(grant, method, path, body), fair.Serial, fmt.Sprintf("%0*d", len(fair.Serial), n.key)))
}

// answeredWith is the answer to a request of the modest one.
func answeredWith(answer <-chan fair.Answer, status int) (fair.Answer, error) {
	a := <-answer
	if a.Error != "" || a.Status != status {
		return a, fmt.Errorf("%d %s %s", a.Status, a.Error, a.Body)
	}
	return a, nil
}

// ask makes one request of the modest one.
func (n *neighbours) ask(method, path, body string, status int) (time.Duration, error) {
	a, err := answeredWith(n.send("all", method, path, body), status)
	return a.Ended.Sub(a.Began), err
}

func (n *neighbours) measure(name, method, path, body string, status int, l *fair.Load) {
	fair.Measure(n.t, fair.Resource{Name: name, Greedy: l.Start, Ask: func() (time.Duration, error) {
		return n.ask(method, path, body, status)
	}})
}

// text is a request, ready to be sent.
func (n *neighbours) text(grant, method, path, body string) string {
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: tollgate\r\nAuthorization: Bearer %s\r\n", method, path, n.token(grant, ""))
	if body != "" {
		text += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	if path == "/v1/payments" && method == "POST" {
		text += "Idempotency-Key: " + fair.Serial + "\r\n"
	}
	return text + "\r\n" + body
}

// raw is a request of each of the greedy one's clients.
func (n *neighbours) raw(method, path, body string) (requests []string) {
	for _, grant := range []string{"other_all", "other_twin", "other_usual"} {
		requests = append(requests, n.text(grant, method, path, body))
	}
	return requests
}

func (n *neighbours) load(connections int, requests []string) *fair.Load {
	return &fair.Load{Address: strings.TrimPrefix(n.url, "http://"), Groups: []fair.Group{{Connections: connections, Requests: requests}}}
}

// polls: from the creation of an event to the answer of who waits for it,
// beside all the listings that an organization may have waiting, and more, that
// its own payments wake.
func (n *neighbours) polls(pay, greedily string) {
	l := n.load(512+32, n.raw("GET", "/v1/events?wait=20&after=latest", ""))
	l.Groups = append(l.Groups, fair.Group{Connections: 4, Requests: n.raw("POST", "/v1/payments", greedily)})
	after := ""
	listed := func(a fair.Answer, err error) (fair.Answer, error) {
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		if err == nil {
			err = json.Unmarshal(a.Body, &page)
		}
		after = page.NextCursor
		return a, err
	}
	_, err := listed(answeredWith(n.send("all", "GET", "/v1/events?after=latest&types=payment.authorized", ""), 200))
	check(n.t, err)
	fair.Measure(n.t, fair.Resource{Name: "long poll", Greedy: l.Start, Ask: func() (time.Duration, error) {
		waiting := n.send("all", "GET", "/v1/events?wait=20&types=payment.authorized&cursor="+after, "")
		time.Sleep(5 * time.Millisecond) // as a rule it waits by then
		paid, err := answeredWith(n.send("all", "POST", "/v1/payments", pay), 201)
		if err != nil {
			return 0, err
		}
		told, err := listed(answeredWith(waiting, 200))
		return told.Ended.Sub(paid.Began), err
	}})
}

// publishing: each publication is examined; the greedy one's are then refused
// for their cases, so that there is no end to them.
func (n *neighbours) publishing() {
	made := n.newPublication("rule:greedy_fee@v1", "1.5", "team")
	made.Golden[0].Lines[0].Amount = eur(1)
	n.sign(&made, "other_team", func(s *auth.RuleStatement) { s.Organization, s.Signer = n.vars["other_org"], n.vars["other_team"] })
	l := n.load(32, n.raw("POST", "/v1/rules", made.body(n.t)))
	number := 0
	fair.Measure(n.t, fair.Resource{Name: "publish a rule", Greedy: l.Start, Ask: func() (time.Duration, error) {
		number++
		p := n.newPublication(fmt.Sprintf("rule:fair_%d@v%d", number/100, number%100+1), "1.5", "team")
		return n.ask("POST", "/v1/rules", p.body(n.t), 201)
	}})
}

// compiling: a rule that is asked for and not loaded. Each has more rules than
// the engine keeps, and asks for one after the other.
func (n *neighbours) compiling() {
	const versions = 40
	ask := func(prefix string, i int) (path, body string) {
		return "/v1/rule-sets/" + n.vars[prefix+"wide_rules"] + "/activations", fmt.Sprintf(`{"rule":"rule:compiled@v%d","adds":true,"dry_run":true}`, i+1)
	}
	var greedy []string
	for i := range versions {
		p := n.newPublication(fmt.Sprintf("rule:compiled@v%d", i+1), fmt.Sprintf("1.%d", i+10), "team")
		n.want(n.call("POST", "/v1/rules", p.body(n.t)), 201, "")
		p = n.newPublication(fmt.Sprintf("rule:compiled@v%d", i+1), fmt.Sprintf("2.%d", i+10), "team")
		n.sign(&p, "other_team", func(s *auth.RuleStatement) { s.Organization, s.Signer = n.vars["other_org"], n.vars["other_team"] })
		n.want(n.call("POST", "/v1/rules", p.body(n.t), "Authorization", "Bearer "+n.token("other_all", "")), 201, "")
		path, body := ask("other_", i)
		greedy = append(greedy, n.raw("POST", path, body)[0])
	}
	number := 0
	fair.Measure(n.t, fair.Resource{Name: "compile a rule", Greedy: n.load(32, greedy).Start, Ask: func() (time.Duration, error) {
		number++
		path, body := ask("", number%versions)
		return n.ask("POST", path, body, 200)
	}})
}
