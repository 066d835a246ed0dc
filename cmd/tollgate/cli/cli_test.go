package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// A flag wins over its variable, which wins over the default.
func TestSettingsOrder(t *testing.T) {
	a := &App{Env: func(name string) (string, bool) { return "variable", name == "TOLLGATE_ADDR" }}
	serve := &cobra.Command{Use: "serve"}
	root := &cobra.Command{}
	root.AddCommand(serve)
	a.Complete(root)
	if got := a.Config(serve).Text("addr"); got != "variable" {
		t.Errorf("addr %q", got)
	}
	if got := a.Config(serve).Text("metrics-addr"); got != ":9090" {
		t.Errorf("metrics-addr %q", got)
	}
	if err := serve.ParseFlags([]string{"--addr", "flag"}); err != nil {
		t.Fatal(err)
	}
	if got := a.Config(serve).Text("addr"); got != "flag" {
		t.Errorf("addr %q", got)
	}
}

// TestRepeatingHidesSecrets: what is printed and kept names variables instead.
func TestRepeatingHidesSecrets(t *testing.T) {
	a := &App{Program: "tollgate"}
	a.args = []string{"pay", "--token", "s3cret", "--client-jwk={}", "1.00", "EUR", "--", "-x"}
	if got, want := a.repeating("k 1"), `tollgate pay --token "$TOLLGATE_TOKEN" --client-jwk="$TOLLGATE_CLIENT_JWK" 1.00 EUR --idempotency-key 'k 1' -- -x`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	a.args = []string{"pay", "--idempotency-key=k"}
	if got := a.repeating("k"); got != "tollgate pay --idempotency-key=k" {
		t.Error(got)
	}
}
