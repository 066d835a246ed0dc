package console

import (
	"os"
	"strings"
	"testing"
)

// lists are the pages that need nothing, with what each must say.
var lists = map[string]string{
	"payments": "Payments", "events": "Events", "audit": "Audit", "rules": "Rules", "webhooks": "Webhooks", "payouts": "Payouts", "perimeters": "Perimeters", "exports": "Exports", "accounts": "Accounts",
}

// singles are the pages of one object, with what each must say.
var singles = map[string][]string{
	"payment": {"100.00 EUR to shop.example", "What happened", "Two chairs", "1.49"}, "ticket": {"✓ Your browser gets the same"}, "refund": {"Refund", "one was broken"},
	"export": {"Export", "payments, csv", "First rows"}, "shadow": {"Shadow", "Against"}, "payout": {"Payout of", "What it is made of"}, "event": {"As it is delivered"},
	"perimeter": {"What is used", "Constraints"}, "account": {"Sales day ends"}, "organization": {"Organization"}, "grant": {"Grant"}, "webhook": {"Deliveries", "Signing keys"},
	"rule_set": {"Rule set", "In force"}, "rule": {"rule:card_fee@v2", "What it charges", "What it would have changed"},
}

// Without a single payment each page opens and says what it is for.
func TestPagesOfAnEmptySandbox(t *testing.T) {
	t.Parallel()
	s := dev(t)
	b := launch(t)
	b.open(s.entry)
	for path, title := range lists {
		b.open(s.console + "/" + path)
		if got := eval[string](b, `document.querySelector("h1").innerText`); got != title {
			t.Errorf("%s: its title is %q", path, got)
		}
		b.quiet(path)
	}
	b.open(s.console + "/payments")
	b.shows("There is no payment yet. Make one:")
	for _, path := range []string{"payments", "exports"} { // what an empty page tells people to run works
		b.open(s.console + "/" + path)
		command := eval[string](b, `document.querySelector(".empty code").innerText`)
		s.run(strings.Fields(command)[1:]...)
	}
}

// Every page opens by its address, has its contents, is accessible in light and dark,
// and fits a telephone and a wall.
func TestPages(t *testing.T) {
	t.Parallel()
	s := dev(t)
	addresses := map[string][]string{}
	for path, title := range lists {
		addresses[path] = []string{title}
	}
	for kind, id := range s.world() {
		addresses[id] = singles[kind]
	}
	s.rows(20)
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	b := launch(t)
	b.open(s.entry)
	for path, texts := range addresses {
		b.size(1400, 1000)
		b.dark(false)
		b.open(s.console + "/" + path)
		b.shows(texts...)
		b.quiet(path)
		for _, width := range []int64{360, 3840} {
			b.size(width, 900)
			b.within(settled)
			b.within(`document.scrollingElement.scrollWidth <= %s`, width) // else it scrolls sideways
		}
		b.size(1400, 1000)
		eval[any](b, string(axe)+"; void 0")
		for _, scheme := range []string{"light", "dark"} {
			b.dark(scheme == "dark")
			for _, v := range violations(b) {
				t.Errorf("%s, %s: %s", path, scheme, v)
			}
		}
		b.quiet(path)
	}
}

// What clients have written appears as text, and never runs.
func TestNothingThatClientsWriteRuns(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"'`
	s := dev(t)
	paid := s.pay(object{"reference": evil[:60], "description": evil, "metadata": object{"note": evil}})
	id := paid.text("id")
	s.ask("POST", "/v1/payments/"+id+"/captures", object{"amount": "60.00", "final_capture": false, "reference": evil[:60], "metadata": object{"note": evil}})
	refund := s.ask("POST", "/v1/payments/"+id+"/refunds", object{"amount": "5.00", "reason": evil})
	large := s.pay(object{"merchant_account_id": "ma_01kb7z2c000000000000000004", "amount": "1500.00", "currency": "USD"}).text("id")
	s.ask("POST", "/v1/payments/"+large+"/reviews", object{"decision": "reject", "note": evil}) // nobody reads it by the API
	var replayed string
	for replayed == "" { // once it is delivered, it can be again
		for _, d := range s.ask("GET", "/v1/webhooks/"+s.env["TOLLGATE_WEBHOOK"]+"/deliveries?state=succeeded", nil).list("data") {
			replayed = d.text("id")
		}
	}
	s.ask("POST", "/v1/webhooks/"+s.env["TOLLGATE_WEBHOOK"]+"/deliveries/"+replayed+"/replays", object{"reason": evil})
	s.label("evil_fee", evil[:40])
	s.ask("POST", "/v1/payments/"+id+"/cancel", object{"reason": evil})
	hook := s.ask("POST", "/v1/webhooks", object{"url": s.url + "/nowhere", "description": evil, "metadata": object{"note": evil}})
	b := launch(t)
	b.open(s.entry)
	for _, path := range []string{id, large, "rul_evil_fee_v1", "rules", s.env["TOLLGATE_WEBHOOK"] + "?delivery=" + replayed, refund.text("id"), hook.text("id"), "webhooks", "payments", "payments?reference=" + "%3Cimg%20src%3Dx%20onerror%3D%22window.hacked%3D1%22%3E", "events", "webhooks?x=%3Cscript%3E", "%3Cimg%20src=x%3E"} {
		b.open(s.console + "/" + path)
		switch {
		case path == id, strings.HasPrefix(path, "rfd_"), path == "webhooks":
			b.shows(evil)
		case path == "rul_evil_fee_v1":
			b.shows(evil[:40])
		}
		if eval[bool](b, `Boolean(window.hacked) || [...document.querySelectorAll("img")].some((e) => e.getAttribute("src") === "x")`) {
			t.Errorf("%s: it runs", path)
		}
		b.quiet(path)
	}
}

// What the API refuses is said with its code and a way on, where it was asked for, and
// changes nothing; what there is not is said, too.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := dev(t)
	id := s.pay(nil).text("id")
	b := launch(t)
	b.open(s.entry)
	unknown := "pay_01kb7z2c00000000000000000z"
	b.open(s.console + "/" + unknown)
	b.within(`document.querySelector("main .fault")?.innerText.includes("not_found")`)
	b.quiet(unknown, "status of 404")
	b.open(s.console + "/payments?from=yesterday")
	b.within(`document.querySelector("main .fault")`)
	b.quiet("a search", "status of 4")
	b.open(s.console + "/" + id)
	b.click("main button", "Capture")
	b.fill("dialog [name=amount]", "100.01")
	b.click("dialog button.main", "Capture")
	b.within(`document.querySelector("dialog[open] .fault")?.innerText.includes("amount")`)
	if link := eval[string](b, `document.querySelector("dialog .fault a")?.getAttribute("href") ?? ""`); !strings.Contains(link, "/docs/errors#") {
		t.Errorf("the refusal leads to %q", link)
	}
	if got := s.ask("GET", "/v1/payments/"+id, nil).text("status"); got != "authorized" {
		t.Errorf("the payment is %s", got)
	}
	b.quiet("a refused capture", "status of 4")
}

// Ten thousand rows: the first ones are there, and more come when asked for.
func TestTenThousandRows(t *testing.T) {
	neededForAll(t)
	t.Parallel()
	s := dev(t)
	s.rows(10_000)
	s.renew()
	b := launch(t)
	b.open(s.entry)
	for _, path := range []string{"payments", "events", "audit", s.env["TOLLGATE_WEBHOOK"]} {
		b.open(s.console + "/" + path)
		b.within(`document.querySelectorAll("tbody tr").length === 50`)
		b.click(".more button", "Show more")
		b.within(`document.querySelectorAll("tbody tr").length === 100`)
		b.quiet(path)
	}
	b.open(s.console + "/payouts")
	b.shows("What another cutoff would change", "they are of 2000 transactions, and there are more")
	b.click(".notice button", "Add up more")
	b.shows("they are of 4000 transactions")
	b.quiet("payouts")
}
