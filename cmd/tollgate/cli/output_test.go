package cli

import (
	"os/exec"
	"testing"
)

// What is quoted is one word of a real shell, whatever it is.
func TestShellQuote(t *testing.T) {
	for _, s := range []string{"", "plain", "/a/b-c_d.e:1@x", "a b", "it's", `$HOME "x" \ ;|&*?<>()`, "tab\there", "ünï", "~", "!x"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q: %s gives %q, %v", s, ShellQuote(s), out, err)
		}
	}
}

func TestTable(t *testing.T) {
	text := Table{Right: []int{1}}
	text.Row("FEE", "AMOUNT", "RULE")
	text.Row("Gebühr", "1.00", "x")
	text.Row("y", "10000.00", "steers \x1b[2J the terminal")
	want := "FEE       AMOUNT  RULE\n" + "Gebühr      1.00  x\n" + "y       10000.00  steers ?[2J the terminal\n"
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}
