package console

import (
	"slices"
	"testing"
)

// offered are the writes that a page has a button for.
const offered = `[...document.querySelectorAll("main button, main a.button")].filter((e) => !e.closest(".filters, .scroll, .more") && !["Follow live", "Stop following", "Download"].includes(e.innerText)).map((e) => e.innerText)`

// A console that only shows offers no write on any page.
func TestReadOnlyConsoleOffersNoWrite(t *testing.T) {
	t.Parallel()
	s := dev(t)
	paths := []string{"payments", "events", "audit", "rules", "webhooks", "payouts", "perimeters", "exports", "accounts", s.pay(nil).text("id")}
	for _, id := range s.world() {
		paths = append(paths, id)
	}
	entry, address := s.beside()
	b := launch(t)
	b.open(entry)
	b.shows("read-only")
	for _, path := range paths {
		b.open(address + "/" + path)
		if found := eval[[]string](b, offered); len(found) > 0 || eval[bool](b, `Boolean(document.querySelector("dialog"))`) {
			t.Errorf("%s offers %q", path, found)
		}
		b.quiet(path)
	}
}

// Each write shows first what will change, and is sent by its own button alone.
func TestWritesAskFirst(t *testing.T) {
	t.Parallel()
	s := dev(t)
	ids := s.world()
	capturable, cancelable := s.pay(nil).text("id"), s.pay(nil).text("id")
	reviewed := s.pay(object{"merchant_account_id": "ma_01kb7z2c000000000000000004", "amount": "1500.00", "currency": "USD"}).text("id")
	export := s.ask("POST", "/v1/exports/preview", object{"dataset": "payments", "format": "csv"}).text("id")
	delivery := s.ask("GET", "/v1/webhooks/"+ids["webhook"]+"/deliveries", nil).list("data")[0].text("id")
	entry, address := s.beside("--write")
	b := launch(t)
	b.open(entry)
	b.shows("can write")
	for _, w := range []struct {
		path, button string
		says         string // the dialog, before anything is sent
		fill         map[string]string
		look         string // what the service would change
		after        string
	}{
		{capturable, "Capture", "100.00 EUR of 100.00 can be captured.", map[string]string{"amount": "60.00"}, "", "Captured 60.00 EUR"},
		{capturable, "Refund", "60.00 EUR of 60.00 captured can be refunded.", map[string]string{"amount": "5.00"}, "", "Refunded 5.00 EUR"},
		{reviewed, "Review", "1500.00 USD to shop.example waits for a decision.", map[string]string{"note": "known"}, "", "authorized"},
		{cancelable, "Cancel", "100.00 EUR can then not be captured any more.", nil, "", "canceled"},
		{ids["webhook"], "Send a ping", "gets an event of type ping.", nil, "", "Deliveries"},
		{ids["webhook"], "Recover", "is sent again.", map[string]string{"since": "2026-01-01T00:00"}, "", "Deliveries"},
		{ids["webhook"], "Disable", "Deliveries are held until it is enabled again.", nil, "", "Enable"},
		{ids["webhook"], "Enable", "Deliveries go on.", nil, "", "Disable"},
		{ids["webhook"] + "?delivery=" + delivery, "Send again", "The endpoint gets the event once more", nil, "", "2."},
		{"exports", "Export", "A worker makes the file.", nil, "", "Download"},
		{export, "Delete the file", "The file cannot be downloaded afterwards.", nil, "", "Exports"},
		{"webhooks", "Add an endpoint", "All events of your accounts from now on are sent there.", map[string]string{"url": s.url + "/nowhere"}, "", "The secret that verifies deliveries."},
		{ids["shadow"], "Stop", "It compares no more payments.", nil, "", "stopped"},
		{ids["rule_set"], "Activate", "Instead of", map[string]string{"rule": "rule:card_fee@v1", "replaces": "rule:card_fee@v2"}, "sample amounts would be charged something else", "rule:card_fee@v1 rule:card_fee@v2 1 → 2 active"},
		{ids["rule_set"], "Roll back", "The version before comes into force for new payments.", nil, "", "roll-back"},
	} {
		b.open(address + "/" + w.path)
		b.written()
		b.click("main button", w.button)
		b.within(`document.querySelector("dialog[open]")?.innerText.replace(/\s+/g, " ").includes(%s)`, w.says)
		for name, value := range w.fill {
			b.fill("dialog [name="+name+"]", value)
		}
		if sent := b.written(); len(sent) > 0 {
			t.Errorf("%s: before its button is pressed the page sends %q", w.button, sent)
		}
		if w.look != "" {
			b.click("dialog button.main", "Show what changes")
			b.within(`document.querySelector("dialog[open] .seen")?.innerText.replace(/\s+/g, " ").includes(%s)`, w.look)
		}
		b.click("dialog button.main", w.button)
		b.within(`!document.querySelector("dialog[open]") || document.querySelector("dialog .fault")`)
		if fault := eval[string](b, `document.querySelector("dialog .fault")?.innerText || ""`); fault != "" {
			t.Errorf("%s: %s", w.button, fault)
			b.complaints()
			continue
		}
		b.shows(w.after)
		b.quiet(w.button)
	}
	if got := s.ask("GET", "/v1/payments/"+reviewed, nil).text("status"); got != "authorized" {
		t.Errorf("what was approved is %s", got)
	}
	if got := s.ask("GET", "/v1/exports/"+export, nil).text("status"); got != "expired" {
		t.Errorf("the export whose file was deleted is %s", got)
	}
	// A dialog that is left alone sends nothing.
	events := len(s.ask("GET", "/v1/events?limit=100&types=webhook_endpoint.*", nil).list("data"))
	b.open(address + "/" + ids["webhook"])
	b.click("main button", "Disable")
	b.click("dialog button", "Leave it as it is")
	b.within(`!document.querySelector("dialog")`)
	if got := len(s.ask("GET", "/v1/events?limit=100&types=webhook_endpoint.*", nil).list("data")); got != events {
		t.Errorf("%d events of endpoints, were %d", got, events)
	}
	if names := eval[[]string](b, offered); !slices.Contains(names, "Disable") {
		t.Errorf("after leaving it: %q", names)
	}
}
