package rediskv_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/rules"
	"tollgate/rediskv/webhooks"
)

// fill gives every field that has no value one of its own, so that a new field
// cannot be forgotten here. Those that are named stay as they are.
func fill[T any](object T, none ...string) T {
	n := int64(1)
	fillValue(reflect.ValueOf(&object).Elem(), &n, append(none, "Damaged"))
	return object
}

func fillValue(v reflect.Value, n *int64, none []string) {
	*n++
	switch value := v.Addr().Interface().(type) {
	case *tollgate.Money:
		if value.Minor == 0 {
			*value = eur(*n)
		}
		return
	case *tollgate.Currency:
		*value = "EUR"
		return
	case *tollgate.Instant:
		if *value == 0 {
			*value = 1_790_000_000_000 + tollgate.Instant(*n)
		}
	case *tollgate.Citation:
		if value.Version == 0 {
			*value = priced[0]
		}
		return
	case *jsontext.Value:
		*value = jsontext.Value(fmt.Sprintf(`{"a":%d}`, *n))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fillValue(v.Elem(), n, none)
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			fillValue(v.Index(i), n, none)
		}
	case reflect.Map:
		if v.Len() == 0 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fillValue(key, n, none)
			fillValue(value, n, none)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(none, f.Name) {
				fillValue(v.Field(i), n, none)
			}
		}
	}
	if v.IsZero() {
		switch v.Kind() {
		case reflect.String:
			v.SetString(fmt.Sprintf("text %d", *n))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int32, reflect.Int64:
			v.SetInt(*n)
		case reflect.Uint8, reflect.Uint32:
			v.SetUint(uint64(*n))
		}
	}
}

// same compares what was read with what was written, and fails when a field has
// no value; those that are named have none in this state.
func same[T any](t *testing.T, read, written T, none ...string) {
	t.Helper()
	if !reflect.DeepEqual(read, written) {
		t.Errorf("%T was read as\n%+v\nand written as\n%+v", read, text(read), text(written))
	}
	whole(t, fmt.Sprintf("%T", read), reflect.ValueOf(read), append(none, "Damaged"))
}

func text(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	return fmt.Sprintf("%+v\n%s %v", v, b, err)
}

func whole(t *testing.T, path string, v reflect.Value, none []string) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		whole(t, path, v.Elem(), none)
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[tollgate.Money]():
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if !slices.Contains(none, f.Name) && !slices.Contains(none, v.Type().Name()+"."+f.Name) {
					whole(t, path+"."+f.Name, v.Field(i), none)
				} else if value := v.Field(i); !value.IsZero() && (value.Kind() != reflect.Map || value.Len() > 0) {
					t.Errorf("%s.%s has a value", path, f.Name)
				}
			}
		}
	case v.Kind() == reflect.Slice && v.Len() > 0:
		whole(t, path+"[0]", v.Index(0), none)
	case v.IsZero(), v.Kind() == reflect.Slice, v.Kind() == reflect.Map && v.Len() == 0:
		t.Errorf("%s has no value", path)
	}
}

// read is what was read, or the end of the test.
func read[T any](object T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return object
	}
}

func parsed[T any](t *testing.T, doc []byte, err error) (object T) {
	t.Helper()
	if err == nil {
		err = json.Unmarshal(doc, &object)
	}
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return object
}

// Every field of what a payment writes is read as it was written: by a create that
// captures at once, and by a refund.
func TestEveryFieldOfAPaymentIsStored(t *testing.T) {
	f := newFixture(t)
	a := f.MerchantAccount(t)
	ch, ans := f.Draft(t, a, eur(1000), "shop.example", tollgate.CaptureAutomatic)
	p, at := ch.Payment, ch.Payment.CreatedAt
	p.AmountCaptured.Minor, p.AmountCapturable.Minor, p.AmountReleased.Minor = 600, 300, 100
	p.AmountRefunded, p.AmountRefundable, p.Refunds = eur(150), eur(450), 2
	p.UpdatedAt, p.AuthorizedAt, p.CapturedAt, p.CanceledAt, p.ExpiredAt = at+1, at+2, at+3, at+4, at+5
	p.Counters = []string{"b0123456789abcdef0123456789abcdef"}
	ch.Reservations = []tollgate.Reservation{{Counter: p.Counters[0], Add: 1, Most: 10, Until: at + 1_000_000, Reason: tollgate.ReasonBudgetExhausted}}
	captured := slices.IndexFunc(ch.Transactions, func(x tollgate.Transaction) bool { return x.Type == tollgate.TransactionCapture })
	x := &ch.Transactions[captured]
	x.RefundID, x.PayoutID, x.UpdatedAt = new("rfd_1"), new("po_1"), at+6
	// Nothing becomes of a payment that was erased: package erase stores that.
	*p, *x, *ch.Ticket, ch.Event = fill(*p, "ErasedAt"), fill(*x), fill(*ch.Ticket), fill(ch.Event, "Sequence", "HistoryID")
	read(f.CreatePayment(t.Context(), f.Caller, f.Key("full"), a, ch, ans))(t)
	payment, ticket := f.Read(t, p.ID)
	same(t, payment, p, "ErasedAt")
	same(t, ticket, ch.Ticket)
	stored := f.allTransactions(t, ledger.TransactionQuery{PaymentID: p.ID, Limit: 10})
	same(t, stored[slices.IndexFunc(stored, func(s tollgate.Transaction) bool { return s.ID == x.ID })], *x)
	doc, err := f.Event(t.Context(), f.Caller, ch.Event.ID, nil)
	event := parsed[tollgate.Event](t, doc, err)
	ch.Event.Sequence, ch.Event.HistoryID = event.Sequence, event.HistoryID
	same(t, event, ch.Event)

	p, ticket = f.Read(t, p.ID)
	priced := f.Price(eur(400), 1)
	priced.Input.Payee, priced.Input.Refund = string(p.Payee), true
	ch, err = tollgate.RefundPayment(f.NewID, f.Origin(f.Caller), p, ticket, tollgate.RefundRequest{
		Amount: eur(400), Reason: new("why"), Account: a.Status, SalesDay: a.Cutoffs.SalesDay(f.Now(), a.Closed),
	}, priced)
	must(t, err)
	p.AmountCaptured.Minor, p.AmountCapturable.Minor, p.AmountReleased.Minor, p.FeeTotal.Minor, p.Captures = 500, 200, 300, 18, 3
	p.AmountRefunded, p.AmountRefundable, p.Refunds = eur(160), eur(340), 4
	p.UpdatedAt, p.AuthorizedAt, p.CapturedAt, p.CanceledAt, p.ExpiredAt = at+11, at+12, at+13, at+14, at+15
	*p, *ch.Refund = fill(*p, "ErasedAt"), fill(*ch.Refund)
	read(f.Transition(t.Context(), f.Caller, nil, a, ch, answer(t, 200, p)))(t)
	payment, ticket = f.Read(t, p.ID)
	same(t, payment, p, "ErasedAt")
	same(t, ticket, ch.Ticket)
	ch.Refund.Payment = nil // which is kept once, in its own record
	same(t, read(f.Refund(t.Context(), f.Caller, ch.Refund.ID))(t), ch.Refund, "Payment")
}

// Every field of what is provisioned is read as it was written.
func TestEveryFieldOfAConfigurationIsStored(t *testing.T) {
	f := newFixture(t)
	c, now := &f.Config, f.Now()
	account := c.MerchantAccounts[0].ID
	c.RuleSigners = []tollgate.RuleSigner{{ID: f.NewID(tollgate.PrefixRuleSigner), Status: "active"}}
	g := tollgate.Grant{ID: f.NewID(tollgate.PrefixGrant), ClientID: c.Clients[0].ID, Scopes: c.Grants[0].Scopes, Status: "active"}
	g.NotBefore, g.ExpiresAt, g.MerchantAccountIDs, g.DefaultMerchantAccountID = now-1, now.Add(time.Hour), []string{account}, &account
	revoked := g
	revoked.ID, revoked.Status = f.NewID(tollgate.PrefixGrant), "revoked"
	c.Grants = append(c.Grants, fill(g, "RevokedAt"), fill(revoked))
	c.Clients[0].GrantIDs = append(c.Clients[0].GrantIDs, g.ID, revoked.ID)
	c.Clients[0], c.RuleSigners[0] = fill(c.Clients[0]), fill(c.RuleSigners[0])
	for i := range c.Grants {
		c.Grants[i].ClientRateLimits = c.Clients[0].RateLimits
	}
	c.Organization, c.LegalEntities[0], c.MerchantAccounts[0] = fill(c.Organization), fill(c.LegalEntities[0]), fill(c.MerchantAccounts[0])
	c.MerchantAccounts[0].RuleSet = c.RuleSets[0]
	c.Perimeters = append(c.Perimeters, fill(tollgate.PerimeterDocument{
		ID: c.Perimeters[0].ID, Version: 2, Semantics: tollgate.PerimeterSemantics, Constraints: jsontext.Value(`{"payees_blocked":["deny.test"]}`),
	}))
	f.Clock.Advance(time.Minute)
	read(f.ApplyConfig(t.Context(), *c, false))(t)
	f.Refresh(c.Organization.ID)
	f.Caller.GrantVersion++ // the client's rate limits are others
	organization := read(f.Organization(t.Context(), c.Organization.ID))(t).Organization
	same(t, organization, filledIn(c.Organization, organization))
	doc, _, err := f.ReadResource(t.Context(), f.Caller, "legal_entity", c.LegalEntities[0].ID)
	entity := parsed[tollgate.LegalEntity](t, doc, err)
	same(t, entity, filledIn(c.LegalEntities[0], entity))
	a := f.MerchantAccount(t)
	same(t, a.MerchantAccount, filledIn(c.MerchantAccounts[0], a.MerchantAccount))
	client := read(f.Client(t.Context(), c.Clients[0].ID))(t).Client
	same(t, client, filledIn(c.Clients[0], client))
	active, ended := read(f.Grant(t.Context(), c.Organization.ID, g.ID))(t).Grant, read(f.Grant(t.Context(), c.Organization.ID, revoked.ID))(t).Grant
	same(t, active, filledIn(c.Grants[1], active), "RevokedAt")
	same(t, ended, filledIn(c.Grants[2], ended))
	same(t, f.signer(t).RuleSigner, filledIn(c.RuleSigners[0], f.signer(t).RuleSigner))
	perimeter := c.Perimeters[1]
	documents := read(f.PerimeterDocuments(t.Context(), c.Organization.ID, []tollgate.PerimeterRef{{ID: perimeter.ID, Version: 2}}))(t)
	same(t, *documents[0].PerimeterDocument, perimeter)
	must(t, f.changeCutoff(t, "09:30", tollgate.NoDate))
	last := f.MerchantAccount(t).Cutoffs.Versions()[1]
	same(t, last, tollgate.CutoffVersion{Cutoff: filledIn(c.MerchantAccounts[0].Cutoff, last.Cutoff), EffectiveDate: last.EffectiveDate})
}

// filledIn is what was provisioned with what the service fills in itself.
func filledIn[T any](written, read T) T {
	for _, name := range []string{"Object", "CreatedAt", "UpdatedAt", "RevokedAt", "OrganizationID", "Version"} {
		if v := reflect.ValueOf(&written).Elem().FieldByName(name); v.IsValid() {
			v.Set(reflect.ValueOf(&read).Elem().FieldByName(name))
		}
	}
	if a, ok := any(&written).(*tollgate.MerchantAccount); ok {
		a.Cutoff = filledIn(a.Cutoff, any(read).(tollgate.MerchantAccount).Cutoff)
	}
	return written
}

// Every field of what rules are, and of what is done with them, is read as it was
// written.
func TestEveryFieldOfRulesIsStored(t *testing.T) {
	f := newFixture(t)
	signer, c, now := f.signer(t), tollgate.Citation{Name: "shop_fee", Version: 1}, f.Now()
	rule := fill(tollgate.Rule{Object: "rule", ID: tollgate.RuleID(c), CreatedAt: now, Rule: c, SHA256: sum(c), SignerID: signer.ID})
	read(f.publishRule(t, rule, signer))(t)
	published, _, err := f.Rule(t.Context(), f.Caller, c)
	same(t, read(published, err)(t), &rule)

	set := f.Config.RuleSets[0].ID
	facts := read(f.RuleSetFacts(t.Context(), f.Caller, set, nil, nil))(t)
	activation := fill(tollgate.Activation{Object: "activation", ID: f.NewID(tollgate.PrefixActivation), CreatedAt: now, RuleSetID: set})
	ch := &tollgate.RuleSetChange{RuleSetID: set, Revision: facts.Revision, Activations: []tollgate.Stored[tollgate.Activation]{{Value: activation}}, Audit: tollgate.AuditEntry{Type: "rule.activate", Outcome: "succeeded"}}
	read(f.CommitRuleSet(t.Context(), f.Caller, nil, ch, rediskv.Answer{Status: 201}))(t)
	same(t, read(f.Activation(t.Context(), f.Caller, set, activation.ID))(t), &activation)

	shadow := fill(tollgate.Shadow{Object: "shadow", ID: f.NewID(tollgate.PrefixShadow), CreatedAt: now, Status: tollgate.StatusActive}, "Totals")
	must(t, f.startShadow(t, shadow))
	divergence := fill(tollgate.Divergence{Object: "divergence", ID: f.NewID(tollgate.PrefixDivergence), CreatedAt: now, ShadowID: shadow.ID})
	found := fill(rules.Comparison{Sums: map[tollgate.Currency]int64{"EUR": 7}, Divergences: []tollgate.Divergence{divergence}})
	must(t, f.RecordComparison(t.Context(), f.Caller.Organization, shadow.ID, "instance", &found))
	shadow.Totals = tollgate.ShadowTotals{
		Compared: found.Compared, Equal: found.Equal, Different: found.Different, Failed: found.Failed, Dropped: found.Dropped,
		Differences: []tollgate.ShadowDifference{{Currency: "EUR", Amount: "0.07"}},
	}
	same(t, read(f.Shadow(t.Context(), f.Caller, shadow.ID))(t).Value, shadow)
	rows, _, err := f.Divergences(t.Context(), f.Caller, shadow.ID, "", 10)
	same(t, parsed[tollgate.Divergence](t, read(rows, err)(t)[0], nil), divergence)

	instance := fill(instances.Instance{ID: f.NewID(tollgate.PrefixInstance), SaidAt: now})
	must(t, f.Heartbeat(t.Context(), instance))
	list := read(f.Instances(t.Context()))(t)
	same(t, list[slices.IndexFunc(list, func(i instances.Instance) bool { return i.ID == instance.ID })], instance)
}

// Every field of an endpoint, and of what is sent to it, is read as it was written.
func TestEveryFieldOfAWebhookIsStored(t *testing.T) {
	f := newFixture(t)
	w := fill(tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
		Object: "webhook_endpoint", ID: f.NewID(tollgate.PrefixWebhook), CreatedAt: f.Now(), UpdatedAt: f.Now(), Status: tollgate.WebhookActive,
		EventTypes: []string{"payment.*"}, MerchantAccountIDs: []string{f.Config.MerchantAccounts[0].ID},
	}}, "Revision", "LastSuccess", "Failures")
	read(f.createWebhook(t, w))(t)
	w.Secret, w.Revision, w.LastSuccess = "", 1, f.Now() // a secret is shown, and not kept
	same(t, *f.webhook(t, w.ID), w, "WebhookEndpoint.Secret", "Failures")

	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	work := f.take(t, 1)[0]
	f.Clock.Advance(time.Second)
	sent := f.ended(work, webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: f.Now().Add(time.Minute), StatusCode: 503, Reason: "http_503"})
	sent.Attempt = fill(sent.Attempt)
	read(f.RecordAttempts(t.Context(), []webhooks.Ended{sent}))(t)
	same(t, f.attempts(t, work)[0], sent.Attempt)
	d, code, why := f.delivery(t, work), 503, "http_503"
	want := tollgate.Delivery{
		Object: "delivery", ID: work.DeliveryID, CreatedAt: d.CreatedAt, WebhookID: w.ID, EventID: d.EventID, EventType: tollgate.PaymentAuthorized, State: tollgate.DeliveryRetrying,
		AttemptCount: 1, NextAttemptAt: sent.Outcome.Next, LastAttemptAt: work.StartedAt, LastStatusCode: &code, FailureReason: &why,
	}
	same(t, *d, want, "CompletedAt", "ReplayCount")
	read(f.replay(t, w.ID, work.DeliveryID))(t)
	again := f.take(t, 1)[0]
	f.record(t, again, succeeded)
	code, want.State, want.AttemptCount, want.ReplayCount = 200, tollgate.DeliverySucceeded, 2, 1
	want.LastAttemptAt, want.CompletedAt, want.NextAttemptAt, want.FailureReason = f.Now(), f.Now(), 0, nil
	same(t, *f.delivery(t, work), want, "NextAttemptAt", "FailureReason")
}

// Every field of an export, of a payout and of an audit record is read as it was
// written.
func TestEveryFieldOfTheBooksIsStored(t *testing.T) {
	f := newFixture(t)
	filter := fill(tollgate.ExportFilter{})
	facts, ch, err := f.newExportChange(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, filter)
	if err == nil {
		ch.Export.Filters = map[string]string{"payee": "text"}
		_, err = f.CommitExport(t.Context(), f.Caller, nil, facts, ch, rediskv.Answer{Status: 202})
	}
	pending := read(f.Export(t.Context(), f.Caller, ch.Export.ID))(t)
	same(t, read(pending, err)(t).Filter, filter)
	pending.Progress.RowsTotal, pending.Preview = nil, nil // it is counted
	same(t, pending.Export, ch.Export, "Progress", "Preview", "Result", "Error", "StartedAt", "FinishedAt")
	j := f.job(t, "a")
	ch, err = tollgate.FailExport(f.NewID, f.Origin(f.Caller), j.Export, tollgate.ExportError{Code: tollgate.CodeInternal, Message: "why"})
	must(t, err)
	must(t, f.EndJob(t.Context(), j, ch))
	failed := read(f.Export(t.Context(), f.Caller, ch.Export.ID))(t)
	failed.Progress.RowsTotal, failed.Preview, ch.Export.Progress, ch.Export.Preview = nil, nil, tollgate.ExportProgress{}, nil
	same(t, failed.Export, ch.Export, "Progress", "Preview", "Result")

	payout := f.duePayout(t)
	was := read(f.StoredPayout(t.Context(), f.Caller.Organization, payout))(t)
	p := was.StoredPayout
	p.UpdatedAt, p.Tally = f.Now()+1, tollgate.Tally{{Date: p.Groups[0].Date}}
	p = fill(p)
	read(f.CommitPayout(t.Context(), f.Caller, nil, was, &tollgate.PayoutChange{Payout: p}, rediskv.Answer{}))(t)
	same(t, read(f.StoredPayout(t.Context(), f.Caller.Organization, payout))(t).StoredPayout, p)

	done := f.export(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{}).Export
	whole(t, "Export", reflect.ValueOf(done), []string{"Filters", "Error", "URL", "Damaged"}) // the address of a file is the handler's

	entry := fill(tollgate.AuditEntry{Actor: f.Caller.Actor, Request: f.Caller.Request})
	must(t, f.Audit(t.Context(), f.Caller, entry))
	rows := f.file(t, f.export(t, tollgate.DatasetAudit, tollgate.FormatNDJSON, tollgate.ExportFilter{Types: []string{entry.Type}}))
	kept := parsed[tollgate.AuditEntry](t, []byte(rows), nil)
	entry.ID, entry.Time, entry.Seq = kept.ID, f.Now(), kept.Seq
	same(t, kept, entry)
}
