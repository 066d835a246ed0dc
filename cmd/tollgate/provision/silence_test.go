package provision

import (
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// What is judged is what is written: where another run changes an account
// meanwhile, a file is compared with what there is then, and judged again.
func TestProvisionJudgesAgainAfterAConflict(t *testing.T) {
	builtin, err := wasm.BuiltinRefs()
	if err != nil {
		t.Fatal(err)
	}
	url := redistest.URL(t)
	var meanwhile func()
	open := func(observe func(string, time.Duration, error)) *store.Store {
		store, err := store.Open(t.Context(), rediskv.Options{URL: url, Clock: time.Now, Entropy: rand.Reader, Timeout: redistest.Patience, Rules: builtin, Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	other := open(nil)
	watched := open(func(operation string, _ time.Duration, _ error) {
		if operation == "read_config" && meanwhile != nil {
			meanwhile()
		}
	})
	want := sandbox.Config("{}", "{}")
	account := want.MerchantAccounts[1]
	account.ID, account.LegalEntityID = "ma_silent", want.LegalEntities[0].ID
	account.RuleSet = tollgate.RuleSet{ID: "rs_silent", Version: 1}
	want.RuleSets = append(want.RuleSets, tollgate.RuleSet{ID: "rs_silent", Version: 1, Rules: []tollgate.Citation{{Name: "platform_fee", Version: 1}}})
	with := func(name string, currencies ...tollgate.Currency) tollgate.Config {
		c := want
		account.Name, account.Currencies = name, currencies
		c.MerchantAccounts = []tollgate.MerchantAccount{account}
		return c
	}
	provision := func(s *store.Store, c tollgate.Config, judge service.Judge) error {
		t.Helper()
		_, err := service.Provision(t.Context(), s, c, judge, false)
		return err
	}
	if err := provision(other, with("first", "USD", "VND"), nil); err != nil {
		t.Fatal(err)
	}
	rules := &silence{store: watched}
	defer rules.close()
	if err := provision(watched, with("second", "USD", "VND"), rules.judge); err != nil {
		t.Errorf("what is in force already: %v", err)
	}
	meanwhile = sync.OnceFunc(func() {
		if err := provision(other, with("third", "USD"), nil); err != nil {
			t.Error(err)
		}
	})
	err = provision(watched, with("fourth", "USD", "VND"), rules.judge)
	if err == nil || !strings.Contains(err.Error(), "merchant account ma_silent: parameter_invalid: rule:platform_fee@v1 charges nothing in VND") {
		t.Errorf("a currency that has been taken away meanwhile: %v", err)
	}
	a, err := other.Account(t.Context(), sandbox.Organization, "ma_silent")
	if err != nil || a.Name != "third" || len(a.Currencies) != 1 {
		t.Errorf("the account is %+v, %v", a, err)
	}
}
