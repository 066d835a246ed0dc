package tollgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollgate"
)

// counted mints ids that tests can name.
func counted() tollgate.NewIDFunc {
	n := 0
	return func(prefix string) string { n++; return fmt.Sprintf("%s%d", prefix, n) }
}

func rule(text string) tollgate.Citation {
	c, err := tollgate.ParseCitation("rule:" + text)
	if err != nil {
		panic(err)
	}
	return c
}

const ruleSet = "rs_1"

// withRules is an account that has a version of the rule set with these rules, read at revision 5.
func withRules(id string, version int64, rules ...string) tollgate.Stored[tollgate.MerchantAccount] {
	a := tollgate.MerchantAccount{ID: id, Status: "active", Currencies: []tollgate.Currency{"EUR"}, RuleSet: tollgate.RuleSet{ID: ruleSet, Version: version}}
	for _, r := range rules {
		a.RuleSet.Rules = append(a.RuleSet.Rules, rule(r))
	}
	return tollgate.Stored[tollgate.MerchantAccount]{Value: a, Revision: 5}
}

// ruleSetFacts are those of a rule set that has had one activation, and of its
// accounts.
func ruleSetFacts(accounts ...tollgate.Stored[tollgate.MerchantAccount]) *tollgate.RuleSetFacts {
	f := &tollgate.RuleSetFacts{
		ID: ruleSet, Revision: 3, Last: 2, Free: 3, Accounts: accounts, Named: true,
		Pinned: map[tollgate.Citation]tollgate.RuleRef{}, InUse: map[string][]tollgate.Citation{}, Versions: map[string]int64{},
	}
	for _, r := range []string{"card_fee@v1", "card_fee@v2", "shop_fee@v1"} {
		f.Pinned[rule(r)] = tollgate.RuleRef{Rule: rule(r), SHA256: "sha of " + r}
	}
	for _, a := range accounts {
		f.InUse[a.Value.ID] = a.Value.RuleSet.Rules
		if a.Value.RuleSet.ID == ruleSet {
			f.Versions[a.Value.ID] = a.Value.RuleSet.Version
		}
	}
	return f
}

// activation from one version to the next, of accounts.
func activation(id string, from int64, status tollgate.ActivationStatus, accounts ...string) tollgate.Stored[tollgate.Activation] {
	return tollgate.Stored[tollgate.Activation]{Revision: 1, Value: tollgate.Activation{
		ID: id, Kind: tollgate.ActivationForward, RuleSetID: ruleSet, FromVersion: from, ToVersion: from + 1, Status: status, MerchantAccountIDs: accounts, At: 1000,
		Rules: []tollgate.RuleRef{{Rule: rule("card_fee@v2")}},
	}}
}

// TestPlanRefuses: each row is a plan that works with one thing changed.
func TestPlanRefuses(t *testing.T) {
	other := withRules("ma_1", 2, "card_fee@v1")
	other.Value.RuleSet.ID = "rs_2"
	for _, row := range []struct {
		name, want string
		change     func(*tollgate.RuleSetFacts, *tollgate.ActivationRequest)
	}{
		{"as it is", "<nil>", func(*tollgate.RuleSetFacts, *tollgate.ActivationRequest) {}},
		{"an account that is not there", "not_found merchant_account_ids", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) { f.Accounts[0].Revision = 0 }},
		{"one of another rule set", "parameter_invalid merchant_account_ids", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) { f.Accounts[0] = other }},
		{"a rule set that nobody has", "not_found", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) { f.Accounts[0], f.Revision = other, 0 }},
		{"nobody uses it any more", "activation_state_invalid", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) { f.Accounts[0], f.Named = other, false }},
		{"nobody ever has", "not_found", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) {
			f.Accounts[0], f.Named, f.Revision = other, false, 0
		}},
		{"beyond the grant", "merchant_account_forbidden merchant_account_ids", func(_ *tollgate.RuleSetFacts, r *tollgate.ActivationRequest) {
			r.Grant = &tollgate.Grant{MerchantAccountIDs: []string{"ma_9"}}
		}},
		{"too many", "parameter_invalid merchant_account_ids", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) {
			for len(f.Accounts) <= tollgate.MaxActivated {
				f.Accounts = append(f.Accounts, f.Accounts[0])
			}
		}},
		{"as many as can be", "<nil>", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) {
			for len(f.Accounts) < tollgate.MaxActivated {
				f.Accounts = append(f.Accounts, f.Accounts[0])
			}
		}},
		{"two versions", "activation_state_invalid", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) {
			f.Accounts = append(f.Accounts, withRules("ma_2", 1, "card_fee@v1"))
		}},
		{"one is scheduled", "activation_state_invalid", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) {
			f.Scheduled = append(f.Scheduled, activation("act_9", 2, tollgate.ActivationScheduled, "ma_2", "ma_1"))
		}},
		{"one was scheduled", "<nil>", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) {
			f.Scheduled = append(f.Scheduled, activation("act_9", 2, tollgate.ActivationActive, "ma_1"))
		}},
		{"for others one is", "<nil>", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) {
			f.Scheduled = append(f.Scheduled, activation("act_9", 2, tollgate.ActivationScheduled, "ma_2"))
		}},
		{"there is no such rule", "not_found rule", func(f *tollgate.RuleSetFacts, _ *tollgate.ActivationRequest) { delete(f.Pinned, rule("card_fee@v2")) }},
		{"it has the rule", "parameter_invalid rule", func(_ *tollgate.RuleSetFacts, r *tollgate.ActivationRequest) { r.Rule = rule("card_fee@v1") }},
		{"new, and says nothing", "parameter_missing replaces", func(_ *tollgate.RuleSetFacts, r *tollgate.ActivationRequest) { r.Rule = rule("shop_fee@v1") }},
	} {
		f := ruleSetFacts(withRules("ma_1", 2, "card_fee@v1"))
		r := tollgate.ActivationRequest{RuleChange: tollgate.RuleChange{Rule: rule("card_fee@v2")}, Grant: &tollgate.Grant{}}
		row.change(f, &r)
		p, err := f.Plan(r, 1000)
		if got := codeOf(err); got != row.want || (err == nil) != (p != nil) {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// TestActivate: the next version stands behind all that there are, and the
// accounts change to it later.
func TestActivate(t *testing.T) {
	f := ruleSetFacts(withRules("ma_1", 2, "card_fee@v1"), withRules("ma_2", 2, "card_fee@v1"))
	f.Free, f.Pending = 7, []string{"act_0"}
	p, err := f.Plan(tollgate.ActivationRequest{RuleChange: tollgate.RuleChange{Rule: rule("shop_fee@v1"), Adds: true, Position: 1}, At: 500}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ch := f.Activate(counted(), p)
	a := ch.Activations[0].Value
	if a.ID != "act_1" || ch.Listed != a.ID || ch.Schedule.ID != a.ID || ch.Activations[0].Revision != 0 || len(ch.Accounts)+len(ch.Events) != 0 {
		t.Errorf("%+v", ch)
	}
	if a.FromVersion != 2 || a.ToVersion != 7 || ch.Last != 7 || ch.Version.Version != 7 || a.At != 1000 || a.Status != tollgate.ActivationScheduled {
		t.Errorf("%+v", a)
	}
	if fmt.Sprint(ch.Version.Rules) != "[rule:shop_fee@v1 rule:card_fee@v1]" || a.Rules[0].SHA256 != "sha of shop_fee@v1" || p.Before[0].SHA256 != "sha of card_fee@v1" {
		t.Errorf("%v, %v, %v", ch.Version.Rules, a.Rules, p.Before)
	}
	if !slices.Equal(ch.Pending, []string{"act_0", "act_1"}) || !slices.Equal(f.Pending, []string{"act_0"}) || ch.Revision != 3 {
		t.Errorf("%v, %v, %d", ch.Pending, f.Pending, ch.Revision)
	}
}

// typesOf lists events with their accounts.
func typesOf(events []tollgate.Event) string {
	var list []string
	for _, e := range events {
		account := "-"
		if e.MerchantAccountID != nil {
			account = *e.MerchantAccountID
		}
		list = append(list, string(e.Type)+" "+account)
	}
	return strings.Join(list, ", ")
}

func TestCarryOut(t *testing.T) {
	due := activation("act_1", 2, tollgate.ActivationScheduled, "ma_1", "ma_2")
	both := func() *tollgate.RuleSetFacts {
		f := ruleSetFacts(withRules("ma_1", 2, "card_fee@v1"), withRules("ma_2", 2, "card_fee@v1"))
		f.Pending = []string{"act_0", "act_1"}
		return f
	}
	for _, row := range []struct {
		name, events, status, reason string
		change                       func(*tollgate.RuleSetFacts)
	}{
		{"the last who use a rule", "rule.activated ma_1, rule.activated ma_2, rule.retired -", "active", "active", func(*tollgate.RuleSetFacts) {}},
		{"another account uses it", "rule.activated ma_1, rule.activated ma_2", "active", "active", func(f *tollgate.RuleSetFacts) {
			f.InUse["ma_3"] = []tollgate.Citation{rule("card_fee@v1")}
		}},
		{"nobody knows what another uses", "rule.activated ma_1, rule.activated ma_2", "active", "active", func(f *tollgate.RuleSetFacts) { f.Unknown = true }},
		{"one was given another version", "", "failed", "rule_set_changed", func(f *tollgate.RuleSetFacts) { f.Accounts[1].Value.RuleSet.Version = 3 }},
		{"one was given another rule set", "", "failed", "rule_set_changed", func(f *tollgate.RuleSetFacts) { f.Accounts[0].Value.RuleSet.ID = "rs_2" }},
	} {
		f := both()
		row.change(f)
		ch, err := f.CarryOut(counted(), tollgate.Origin{Organization: "org_1", At: 2000}, due)
		if err != nil {
			t.Fatal(err)
		}
		a := ch.Activations[0]
		if got := typesOf(ch.Events); got != row.events || string(a.Value.Status) != row.status || ch.Audit.Reason != row.reason || a.Revision != 1 {
			t.Errorf("%s: %q, %s, %s", row.name, got, a.Value.Status, ch.Audit.Reason)
		}
		if !slices.Equal(ch.Pending, []string{"act_0"}) || !slices.Equal(ch.Unschedule, []string{"act_1"}) || ch.Last != 2 || ch.Listed != "" {
			t.Errorf("%s: %+v", row.name, ch)
		}
		for i, e := range ch.Events {
			if e.Type == tollgate.RuleActivated && !strings.Contains(string(e.Data), `"revision":6,"changed":["rule_set"]`) {
				t.Errorf("%s: event %d: %s", row.name, i, e.Data)
			}
		}
		if moved := len(ch.Accounts); (moved == 2) != (row.status == "active") || moved == 2 && (ch.Accounts[1].Value.RuleSet.Version != 3 || ch.Accounts[1].Revision != 5) {
			t.Errorf("%s: %+v", row.name, ch.Accounts)
		}
		if f.Accounts[0].Value.RuleSet.Version == 3 {
			t.Errorf("%s: the facts have changed", row.name)
		}
	}
	for name, early := range map[string]tollgate.Stored[tollgate.Activation]{
		"its time has not come":  activation("act_1", 2, tollgate.ActivationScheduled, "ma_1"),
		"somebody was faster":    activation("act_1", 2, tollgate.ActivationActive, "ma_1"),
		"somebody has cancelled": activation("act_1", 2, tollgate.ActivationCanceled, "ma_1"),
	} {
		if ch, err := both().CarryOut(counted(), tollgate.Origin{At: 999}, early); ch != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, ch, err)
		}
	}
	if ch, err := both().CarryOut(counted(), tollgate.Origin{Organization: "org_1", At: due.Value.At}, due); ch == nil || err != nil {
		t.Errorf("at its time: %+v, %v", ch, err)
	}
	if a := due.Value; a.Waits(0, 1000) || !a.Waits(1, 1000) || !a.Waits(1, 30_999) || a.Waits(1, 31_000) {
		t.Error("an activation does not wait for instances as long as it should")
	}
}

func TestCancelActivation(t *testing.T) {
	f := ruleSetFacts()
	f.Pending = []string{"act_1"}
	for _, row := range []struct {
		want   string
		grant  tollgate.Grant
		status tollgate.ActivationStatus
	}{
		{"<nil>", tollgate.Grant{}, tollgate.ActivationScheduled},
		{"merchant_account_forbidden", tollgate.Grant{MerchantAccountIDs: []string{"ma_1"}}, tollgate.ActivationScheduled},
		{"merchant_account_forbidden", tollgate.Grant{MerchantAccountIDs: []string{"ma_2"}}, tollgate.ActivationScheduled},
		{"activation_state_invalid", tollgate.Grant{}, tollgate.ActivationActive},
		{"activation_state_invalid", tollgate.Grant{}, tollgate.ActivationRolledBack},
	} {
		ch, a, err := f.Cancel(tollgate.Origin{At: 2000}, activation("act_1", 2, row.status, "ma_1", "ma_2"), &row.grant)
		if codeOf(err) != row.want {
			t.Errorf("%s: %v, want %s", row.status, err, row.want)
		}
		if err == nil && (a.Status != tollgate.ActivationCanceled || a.EndedAt != 2000 || ch.Activations[0].Value.Status != a.Status || ch.Activations[0].Revision != 1 || ch.Audit.Type != "rule.cancel" || len(ch.Pending) != 0 || ch.Unschedule[0] != "act_1" || len(ch.Events) != 0) {
			t.Errorf("%+v, %+v", a, ch)
		}
	}
}

// TestRollBack: accounts went from version 1 to 2, and one of them to 3, whose
// activation is the latest.
func TestRollBack(t *testing.T) {
	first, second := activation("act_1", 1, tollgate.ActivationActive, "ma_1", "ma_2"), activation("act_2", 2, tollgate.ActivationActive, "ma_1")
	history := tollgate.History{second, first}
	if v := history.Before(3, "ma_1"); v != 1 {
		t.Errorf("before both there was version %d", v)
	}
	facts := func(named bool, accounts ...tollgate.Stored[tollgate.MerchantAccount]) *tollgate.RuleSetFacts {
		f := ruleSetFacts(accounts...)
		f.History, f.Named, f.Versions = history, named, map[string]int64{"ma_1": 3, "ma_2": 2}
		return f
	}
	one, two := withRules("ma_1", 3, "card_fee@v2", "shop_fee@v1"), withRules("ma_2", 2, "card_fee@v2")
	for _, row := range []struct {
		name  string
		facts *tollgate.RuleSetFacts
		want  string // the version to go back to, who moves, and what ends
	}{
		{"the latest", facts(false, one, two), "2 [ma_1] [act_2 rolled_back]"},
		{"what the latest gave is nobody's any more", func() *tollgate.RuleSetFacts {
			f := facts(false, withRules("ma_1", 9, "card_fee@v2"), two)
			f.Versions["ma_1"] = 9
			return f
		}(), "1 [ma_2] [act_2 rolled_back act_1 rolled_back]"},
		{"one account", facts(true, one), "2 [ma_1] [act_2 rolled_back]"},
		{"the other, of which the latest has what the first made", facts(true, two), "1 [ma_2] []"},
		{"both at once", facts(true, one, two), "activation_state_invalid"},
		{"one that has what no activation made", facts(true, withRules("ma_3", 2, "card_fee@v2")), "activation_state_invalid"},
		{"none was ever moved", func() *tollgate.RuleSetFacts { f := facts(false); f.History = nil; return f }(), "activation_state_invalid"},
		{"there is no such rule set", func() *tollgate.RuleSetFacts { f := facts(false); f.Revision = 0; return f }(), "not_found"},
		{"something is scheduled for it", func() *tollgate.RuleSetFacts {
			f := facts(true, one)
			f.Pending = []string{"act_7", "act_8"}
			f.Scheduled = []tollgate.Stored[tollgate.Activation]{activation("act_7", 3, tollgate.ActivationScheduled, "ma_2"), activation("act_8", 3, tollgate.ActivationScheduled, "ma_1")}
			return f
		}(), "2 [ma_1] [act_2 rolled_back act_8 canceled]"},
	} {
		back, err := row.facts.Previous(nil)
		if err != nil {
			if codeOf(err) != row.want {
				t.Errorf("%s: %v, want %s", row.name, err, row.want)
			}
			continue
		}
		ch, a, err := row.facts.RollBack(counted(), tollgate.Origin{Organization: "org_1", RequestID: "req_1", At: 2000}, nil, back, []tollgate.RuleRef{{Rule: rule("card_fee@v2")}})
		if err != nil {
			t.Fatal(err)
		}
		ended := []string{}
		for _, e := range ch.Activations[1:] {
			ended = append(ended, e.Value.ID, string(e.Value.Status))
		}
		if got := fmt.Sprintf("%d %v %v", back, a.MerchantAccountIDs, ended); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if a.Kind != tollgate.ActivationRollback || a.Status != tollgate.ActivationActive || ch.Listed != a.ID || ch.Audit.Reason != fmt.Sprintf("%d to %d", a.FromVersion, back) {
			t.Errorf("%s: %+v", row.name, a)
		}
		if row.name == "something is scheduled for it" && (!slices.Equal(ch.Pending, []string{"act_7"}) || !slices.Equal(ch.Unschedule, []string{"act_8"})) {
			t.Errorf("%s: %v, %v", row.name, ch.Pending, ch.Unschedule)
		}
		if row.name == "one account" && (typesOf(ch.Events) != "rule.activated ma_1, rule.retired -" || ch.Events[0].RequestID != nil || *ch.Events[1].RequestID != "req_1") {
			t.Errorf("%s", typesOf(ch.Events))
		}
	}
}

func TestShadowDecisions(t *testing.T) {
	f := tollgate.ShadowFacts{Revision: 4}
	for i := range tollgate.MaxShadows {
		ch, err := f.Start(tollgate.Shadow{ID: fmt.Sprintf("shd_%d", i), Status: tollgate.StatusActive})
		if err != nil || len(ch.Active) != i+1 || ch.Shadow.Revision != 0 || ch.Revision != 4 {
			t.Fatalf("%+v, %v", ch, err)
		}
		f.Active = ch.Active
	}
	if _, err := f.Start(tollgate.Shadow{ID: "shd_9"}); codeOf(err) != "quota_exceeded shadows" {
		t.Error(err)
	}
	ch, err := f.Stop(tollgate.Stored[tollgate.Shadow]{Value: f.Active[1], Revision: 1}, 2000)
	if err != nil || len(ch.Active) != tollgate.MaxShadows-1 || ch.Active[1].ID != "shd_2" || ch.Shadow.Value.StoppedAt != 2000 || len(f.Active) != tollgate.MaxShadows {
		t.Fatalf("%+v, %v", ch, err)
	}
	if _, err := f.Stop(ch.Shadow, 3000); codeOf(err) != "activation_state_invalid" {
		t.Error(err)
	}
}

func TestPublishDecides(t *testing.T) {
	r := tollgate.Rule{ID: "rul_shop_fee_v5", Rule: rule("shop_fee@v5"), SHA256: "a", GoldenSHA256: "b", SignerID: "sig_1"}
	other := r
	other.SignerID = "sig_2"
	for _, row := range []struct {
		name, want string
		facts      tollgate.PublicationFacts
	}{
		{"a new name", "<nil>, 1 versions, 8 names", tollgate.PublicationFacts{Quotas: tollgate.Quotas{Rules: 7, Perimeters: 3, Revision: 2}}},
		{"the last new name", "<nil>, 1 versions, 200 names", tollgate.PublicationFacts{Quotas: tollgate.Quotas{Rules: tollgate.MaxRuleNames - 1}}},
		{"one name too many", "quota_exceeded rule", tollgate.PublicationFacts{Quotas: tollgate.Quotas{Rules: tollgate.MaxRuleNames}}},
		{"the next version", "<nil>, 3 versions", tollgate.PublicationFacts{Versions: 2, Last: 4}},
		{"a later one is there", "rule_invalid rule", tollgate.PublicationFacts{Versions: 2, Last: 6}},
		{"the last version", "<nil>, 100 versions", tollgate.PublicationFacts{Versions: tollgate.MaxRuleVersions - 1, Last: 4}},
		{"one version too many", "quota_exceeded rule", tollgate.PublicationFacts{Versions: tollgate.MaxRuleVersions, Last: 4}},
		{"the same again", "nothing", tollgate.PublicationFacts{Published: &r, Last: 9}},
		{"by another", "rule_exists rule", tollgate.PublicationFacts{Published: &other, Last: 5}},
	} {
		p, err := row.facts.Publish(counted(), tollgate.Origin{Organization: "org_1"}, r)
		got := codeOf(err)
		switch {
		case err == nil && p == nil:
			got = "nothing"
		case p != nil:
			got += fmt.Sprintf(", %d versions", p.Versions)
			if p.Quotas != nil {
				got += fmt.Sprintf(", %d names", p.Quotas.Rules)
				if p.Quotas.Perimeters != row.facts.Quotas.Perimeters || p.Quotas.Revision != row.facts.Quotas.Revision {
					t.Errorf("%s: %+v", row.name, p.Quotas)
				}
			}
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}
