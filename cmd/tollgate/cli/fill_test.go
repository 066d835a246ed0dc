package cli

import "testing"

func TestFill(t *testing.T) {
	values := map[string]string{"Name": "card_fee", "Label": "Card fee", "Refund": "yes", "File": ""}
	for text, want := range map[string]string{
		"":                                    "",
		"no places":                           "no places",
		"{{.Name}}: {{.Label}}\n":             "card_fee: Card fee\n",
		"a\n{{- if .Refund}}\nb\n{{- end}}\n": "a\nb\n",
		"a\n{{- if .File}}\nb\n{{- end}}\n":   "a\n",
		"{{if .File}}a{{else}}b{{end}}c":      "bc",
		"{{if .Refund}}a{{else}}b{{end}}c":    "ac",
		"{{if .File}}{{if .Refund}}a{{else}}b{{end}}{{.Name}}{{else}}c{{end}}": "c",
		"{{if .Refund}}{{if .File}}a{{else}}b{{end}}{{.Name}}{{else}}c{{end}}": "bcard_fee",
	} {
		if got, err := Fill(text, values); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"{{.Other}}", "{{if .Other}}{{end}}", "{{if .Name}}", "{{end}}", "{{else}}", "{{.Name", "{{range .Name}}{{end}}", "{{}}"} {
		if got, err := Fill(text, values); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
