package rediskv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv"
)

// TestProvisionJudgesWhatIsNew: each rule and currency that an account gets
// together for the first time is to be judged, and nothing that is in force
// already; a no keeps the whole file from being written.
func TestProvisionJudgesWhatIsNew(t *testing.T) {
	f := newFixture(t)
	f.published(t, "shop_fee", 1)
	var asked []string
	var no error
	config := f.Config
	apply := func(dryRun bool) error {
		facts, err := f.ConfigFacts(t.Context(), config)
		if err != nil {
			return err
		}
		p, err := tollgate.Provision(f.NewID, f.Origin(rediskv.Caller{Organization: config.Organization.ID}), facts, config)
		if err != nil {
			return err
		}
		for _, n := range p.NewlyPriced {
			if n.Rule.SHA256 == "" {
				t.Errorf("asked about %+v", n)
			}
			asked = append(asked, fmt.Sprint(n.Rule.Rule.Name, n.Currencies))
			if no != nil {
				return no
			}
		}
		if dryRun {
			return nil
		}
		return f.CommitConfig(t.Context(), p)
	}
	config.MerchantAccounts = append([]tollgate.MerchantAccount(nil), config.MerchantAccounts...)
	applied := func(want string) {
		t.Helper()
		asked = nil
		for _, dryRun := range []bool{true, false} {
			if err := apply(dryRun); !errors.Is(err, no) {
				t.Fatal(err)
			}
			if got := strings.Join(asked, " "); got != want {
				t.Errorf("asked about %q, want %q", got, want)
			}
			asked = nil
		}
	}
	set := config.RuleSets[0]
	rules := func(cited ...tollgate.Citation) {
		set.Version += 10
		set.Rules = cited
		config.RuleSets = append(config.RuleSets[:1:1], set)
		config.MerchantAccounts[0].RuleSet = tollgate.RuleSet{ID: set.ID, Version: set.Version}
	}
	card, shop := set.Rules[0], tollgate.Citation{Name: "shop_fee", Version: 1}

	applied("") // the same file
	config.MerchantAccounts[0].Currencies = []tollgate.Currency{"EUR", "JPY", "BHD", "CLF", "SEK"}
	no = errors.New("no")
	if err := apply(false); !errors.Is(err, no) {
		t.Errorf("a no is %v", err)
	}
	no = nil
	asked = nil
	if err := apply(false); err != nil || strings.Join(asked, " ") != "card_fee[SEK]" {
		t.Errorf("a new currency: asked about %q, %v", asked, err)
	}
	applied("")
	rules(card, shop)
	asked = nil
	if err := apply(true); err != nil || strings.Join(asked, " ") != "shop_fee[EUR JPY BHD CLF SEK]" {
		t.Errorf("a new rule: asked about %q, %v", asked, err)
	}
	rules(card)
	applied("") // what is left out needs no leave

	// What an activation has put there is in force, and the same file leaves it.
	f.activate(t, 1, config.MerchantAccounts[0].ID)
	f.Refresh(config.Organization.ID)
	config.MerchantAccounts[0].Currencies = append(config.MerchantAccounts[0].Currencies, "NOK")
	asked = nil
	if err := apply(true); err != nil || !strings.Contains(strings.Join(asked, " "), "shop_fee[NOK]") {
		t.Errorf("a new currency beside what was activated: asked about %q, %v", asked, err)
	}
}
