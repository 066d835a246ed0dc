package tollgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
)

var withShopFee = []tollgate.Citation{cite, {Name: "shop_fee", Version: 1}}

// activate lets an activation have given accounts a version of rs_1.
func (o *organization) activate(t *testing.T, id string, from, to int64, accounts ...string) {
	t.Helper()
	a := tollgate.Stored[tollgate.Activation]{Revision: 2, Value: tollgate.Activation{
		Object: "activation", ID: id, RuleSetID: "rs_1", FromVersion: from, ToVersion: to, MerchantAccountIDs: accounts, Status: tollgate.ActivationActive,
	}}
	o.facts.Histories["rs_1"] = append(tollgate.History{a}, o.facts.Histories["rs_1"]...)
	set := tollgate.RuleSet{ID: "rs_1", Version: to, Rules: withShopFee}
	for _, account := range accounts {
		stored := o.facts.Objects[account]
		stored.Revision++
		doc := document[tollgate.MerchantAccount](t, o, account)
		doc.RuleSet = set
		var err error
		if stored.Document, err = json.Marshal(doc, json.Deterministic(true)); err != nil {
			t.Fatal(err)
		}
		o.facts.Objects[account] = stored
	}
}

// TestProvisionBesideActivations: an account keeps what it was given by
// activations until the file names another rule set than before, and an activation
// of which nothing is left is superseded.
func TestProvisionBesideActivations(t *testing.T) {
	give := func(account int, version int64) func(*tollgate.Config) {
		return func(c *tollgate.Config) { c.MerchantAccounts[account].RuleSet.Version = version }
	}
	for _, c := range []struct {
		name       string
		change     []func(*tollgate.Config)
		want       string
		superseded string
		versions   [2]int64
	}{
		{"the same file", nil, "", "", [2]int64{2, 3}},
		{
			"another name",
			[]func(*tollgate.Config){func(c *tollgate.Config) { c.MerchantAccounts[0].Name = "New" }},
			"changed merchant_account ma_1 name; merchant_account.updated", "",
			[2]int64{2, 3},
		},
		{"what is in force", []func(*tollgate.Config){give(0, 2)}, "changed merchant_account ma_1 rule_set", "", [2]int64{2, 3}},
		{
			"another version for one",
			[]func(*tollgate.Config){give(0, 7)},
			"changed merchant_account ma_1 rule_set; rule.activated", "",
			[2]int64{7, 3},
		},
		{
			"another version for the one with the latest",
			[]func(*tollgate.Config){give(1, 7)},
			"changed merchant_account ma_2 rule_set; rule.activated", "act_2",
			[2]int64{2, 7},
		},
		{
			"another version for both",
			[]func(*tollgate.Config){give(0, 7), give(1, 7)},
			"changed merchant_account ma_1 rule_set; changed merchant_account ma_2 rule_set; rule.activated; rule.activated", "act_2 act_1",
			[2]int64{7, 7},
		},
		{
			"the version before the latest",
			[]func(*tollgate.Config){give(1, 2)},
			"changed merchant_account ma_2 rule_set; rule.activated", "act_2",
			[2]int64{2, 2},
		},
		{"another rule set for both", []func(*tollgate.Config){func(c *tollgate.Config) {
			c.MerchantAccounts[0].RuleSet = tollgate.RuleSet{ID: "rs_2", Version: 1}
			c.MerchantAccounts[1].RuleSet = tollgate.RuleSet{ID: "rs_2", Version: 1}
		}}, "changed merchant_account ma_1 rule_set; changed merchant_account ma_2 rule_set; rule.activated; rule.activated", "act_2 act_1", [2]int64{1, 1}},
		{
			"nothing of the one that is left out",
			[]func(*tollgate.Config){give(1, 7), func(c *tollgate.Config) { c.MerchantAccounts = c.MerchantAccounts[1:] }},
			"changed merchant_account ma_2 rule_set; rule.activated", "act_2",
			[2]int64{2, 7},
		},
	} {
		for _, noted := range []bool{true, false} { // false: by accounts of a release that did not note what they were given
			o, want := newOrganization(t)
			for _, set := range []tollgate.RuleSet{
				{ID: "rs_1", Version: 2, Rules: withShopFee}, {ID: "rs_1", Version: 7, Rules: standardRules}, {ID: "rs_2", Version: 1, Rules: standardRules},
			} {
				o.apply(t, onlyThe(tollgate.Config{RuleSets: []tollgate.RuleSet{set}}))
			}
			o.activate(t, "act_1", 1, 2, "ma_1", "ma_2")
			o.activate(t, "act_2", 2, 3, "ma_2")
			want = clone(want)
			for _, change := range c.change {
				change(&want)
			}
			if !noted {
				for _, id := range []string{"ma_1", "ma_2"} {
					stored := o.facts.Objects[id]
					stored.Given = ""
					o.facts.Objects[id] = stored
				}
			}
			state := o.facts.RuleSets["rs_1"]
			p := o.apply(t, want)
			var superseded []string
			for _, object := range p.Objects {
				if object.Kind != "activation" {
					continue
				}
				superseded = append(superseded, object.ID)
				if text := string(object.Document); object.Revision != 2 || !strings.Contains(text, `"superseded"`) || !strings.Contains(text, `"ended_at":"2026-11-21`) {
					t.Errorf("%s: %+v %s", c.name, object, text)
				}
			}
			if got := strings.Join(superseded, " "); summary(p) != c.want || got != c.superseded {
				t.Errorf("%s, noted %v: %s, superseded %s\nwant %s, %s", c.name, noted, summary(p), got, c.want, c.superseded)
			}
			for i, e := range p.Audit[:len(superseded)] { // before what supersedes them
				if e.Type != "rule.superseded" || e.Target.ID != superseded[i] || e.Reason != "" {
					t.Errorf("%s: audit entry %+v", c.name, e)
				}
			}
			for i, id := range []string{"ma_1", "ma_2"} {
				a := document[tollgate.MerchantAccount](t, o, id)
				if a.RuleSet.Version != c.versions[i] || len(a.RuleSet.Rules) == 0 {
					t.Errorf("%s: %s has %+v, want version %d", c.name, id, a.RuleSet, c.versions[i])
				}
			}
			looked := c.versions[1] != 3 && c.versions[0] == 2 // at what the first account has, because the second is moved
			if read, ok := p.Compared["ma_1"]; ok != looked || (ok && read != 2) {
				t.Errorf("%s: compares %v", c.name, p.Compared)
			}
			moved := c.superseded != "" || c.versions[0] == 7
			if now := o.facts.RuleSets["rs_1"]; (now.Revision > state.Revision) != moved || now.Last != state.Last {
				t.Errorf("%s: the rule set was %+v, is %+v", c.name, state, now)
			}
			if again := o.apply(t, want); summary(again) != "" {
				t.Errorf("%s, noted %v: the same again: %s", c.name, noted, summary(again))
			}
		}
	}
}

// What counts is what an account has been given by an activation: one that a file
// gives the same version keeps no activation in force, and one that a file gives
// what an activation has given it before does.
func TestProvisionSupersedesByAccount(t *testing.T) {
	for _, c := range []struct {
		name       string
		give       [2]tollgate.RuleSet
		superseded string
	}{
		{"the same version to the other", [2]tollgate.RuleSet{{ID: "rs_1", Version: 7}, {ID: "rs_1", Version: 2}}, "act_1 act_2"},
		{"a version of before", [2]tollgate.RuleSet{{ID: "rs_1", Version: 2}, {ID: "rs_1", Version: 1}}, "act_2"},
		{"that version of another rule set", [2]tollgate.RuleSet{{ID: "rs_2", Version: 2}, {ID: "rs_1", Version: 1}}, "act_1 act_2"},
	} {
		o, want := newOrganization(t)
		want = clone(want)
		for _, set := range []tollgate.RuleSet{{ID: "rs_1", Version: 2, Rules: withShopFee}, {ID: "rs_1", Version: 7}, {ID: "rs_2", Version: 2}} {
			o.apply(t, onlyThe(tollgate.Config{RuleSets: []tollgate.RuleSet{set}}))
		}
		o.activate(t, "act_1", 1, 2, "ma_1")
		o.activate(t, "act_2", 2, 3, "ma_1")
		want.MerchantAccounts[0].RuleSet, want.MerchantAccounts[1].RuleSet = c.give[0], c.give[1]
		var superseded []string
		for _, object := range o.apply(t, want).Objects {
			if object.Kind == "activation" {
				superseded = append(superseded, object.ID)
			}
		}
		slices.Sort(superseded)
		if got := strings.Join(superseded, " "); got != c.superseded {
			t.Errorf("%s: superseded %s, want %s", c.name, got, c.superseded)
		}
	}
}

// An account that has another rule set keeps no activation in force, whatever that
// one's version is.
func TestProvisionSupersedesWithoutOtherRuleSets(t *testing.T) {
	o, want := newOrganization(t)
	want = clone(want)
	for _, set := range []tollgate.RuleSet{{ID: "rs_1", Version: 2, Rules: withShopFee}, {ID: "rs_1", Version: 7}, {ID: "rs_2", Version: 2}} {
		o.apply(t, onlyThe(tollgate.Config{RuleSets: []tollgate.RuleSet{set}}))
	}
	o.activate(t, "act_1", 1, 2, "ma_1", "ma_2")
	want.MerchantAccounts[0].RuleSet = tollgate.RuleSet{ID: "rs_2", Version: 2}
	if o.apply(t, want); len(o.facts.Histories["rs_1"]) != 1 {
		t.Errorf("beside an account that still has it: %+v", o.facts.Histories)
	}
	want.MerchantAccounts[1].RuleSet = tollgate.RuleSet{ID: "rs_1", Version: 7}
	if o.apply(t, want); len(o.facts.Histories["rs_1"]) != 0 {
		t.Errorf("the last one has left: %+v", o.facts.Histories)
	}
}

// A rule set's highest version is noted, whatever the order in the file, and what
// is scheduled stays scheduled.
func TestProvisionNotesTheHighestVersion(t *testing.T) {
	o, want := newOrganization(t)
	if s := o.facts.RuleSets["rs_1"]; s.Last != 1 || s.Revision != 1 {
		t.Errorf("at first: %+v", s)
	}
	s := o.facts.RuleSets["rs_1"]
	s.Pending = []string{"act_9"}
	o.facts.RuleSets["rs_1"] = s
	want = clone(want)
	for _, version := range []int64{4, 9, 2} {
		want.RuleSets = append(want.RuleSets, tollgate.RuleSet{ID: "rs_1", Version: version, Rules: standardRules})
	}
	o.apply(t, want)
	if s := o.facts.RuleSets["rs_1"]; s.Last != 9 || s.Revision != 2 || !slices.Equal(s.Pending, []string{"act_9"}) {
		t.Errorf("afterwards: %+v", s)
	}
}

// TestProvisionNewlyPriced: what has to be judged is each rule with the currencies
// that an account gets together for the first time, and nothing that is in force.
func TestProvisionNewlyPriced(t *testing.T) {
	o, want := newOrganization(t)
	o.apply(t, onlyThe(tollgate.Config{RuleSets: []tollgate.RuleSet{{ID: "rs_1", Version: 2, Rules: withShopFee}}}))
	want = clone(want)
	a := &want.MerchantAccounts[0]
	for _, step := range []struct {
		name, want string
		change     func()
	}{
		{"the same file", "", func() {}},
		{"a new currency", "ma_1 card_fee [SEK]", func() { a.Currencies = []tollgate.Currency{"EUR", "SEK"} }},
		{"one that it had", "ma_1 card_fee [JPY]", func() { a.Currencies = []tollgate.Currency{"EUR", "SEK", "JPY"} }},
		{"a new rule", "ma_1 shop_fee [EUR SEK JPY]", func() { a.RuleSet.Version = 2 }},
		{"both", "ma_2 card_fee [NOK], ma_2 shop_fee [EUR NOK]", func() {
			want.MerchantAccounts[1].RuleSet.Version = 2
			want.MerchantAccounts[1].Currencies = []tollgate.Currency{"EUR", "NOK"}
		}},
		{"what is left out", "", func() { a.RuleSet.Version = 1 }},
		{"a new account", "ma_3 card_fee [EUR SEK JPY]", func() {
			third := *a
			third.ID = "ma_3"
			want.MerchantAccounts = append(want.MerchantAccounts, third)
		}},
	} {
		step.change()
		var got []string
		for _, n := range o.apply(t, want).NewlyPriced {
			if n.Rule.SHA256 != o.facts.Rules[n.Rule.Rule] {
				t.Errorf("%s: %+v", step.name, n)
			}
			got = append(got, fmt.Sprint(n.MerchantAccountID, " ", n.Rule.Rule.Name, " ", n.Currencies))
		}
		if list := strings.Join(got, ", "); list != step.want {
			t.Errorf("%s: %s, want %s", step.name, list, step.want)
		}
	}
	o.activate(t, "act_1", 1, 3, "ma_1") // what was activated is in force, and stays
	if p := o.apply(t, want); len(p.NewlyPriced) > 0 {
		t.Errorf("beside an activation: %+v", p.NewlyPriced)
	}
}
