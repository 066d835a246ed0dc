package client

import (
	"testing"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// What is stored and cannot be read is a row that says so, in every list.
func TestListsShowDamage(t *testing.T) {
	for object, c := range map[string]struct{ heads, want []string }{
		"payout":           {[]string{"PAID ON", "STATUS", "AMOUNT", "PAYOUT"}, []string{"-", "damaged", "-", "x_1"}},
		"delivery":         {[]string{"CREATED", "STATE", "DELIVERY", "FAILURE"}, []string{"-", "damaged", "x_1", "-"}},
		"webhook_endpoint": {[]string{"WEBHOOK", "STATUS", "", "URL"}, []string{"x_1", "damaged", "-", "-"}},
		"shadow":           {[]string{"STATUS", "RULE", "ID"}, []string{"damaged", "-", "x_1"}},
	} {
		a, stdout, _ := clitest.App(nil)
		table, want := &cli.Table{}, &cli.Table{}
		table.Row(append([]string(nil), c.heads...)...)
		want.Row(c.heads...)
		want.Row(c.want...)
		body := []byte(`{"object":"list","data":[{"object":"` + object + `","id":"x_1","damaged":true}],"has_more":false,"next_cursor":null}`)
		err := cli.ShowPage(&cli.Client{App: a}, body, table, func(*tollgate.Payment) string { t.Error("it was read as a sound one"); return "" })
		if err != nil || stdout.String() != want.String() {
			t.Errorf("%s: %v\n%s\nwant\n%s", object, err, stdout, want)
		}
		stdout.Reset()
		if err := cli.ShowPage(&cli.Client{App: a, Quiet: true}, body, table, func(*tollgate.Payment) string { return "" }); err != nil || stdout.String() != "x_1\n" {
			t.Errorf("%s, quiet: %v, %q", object, err, stdout)
		}
	}
}
