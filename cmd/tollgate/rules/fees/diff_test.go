package fees

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/rediskv/redistest"
	"tollgate/wasm"
	"tollgate/wasm/abi"
	"tollgate/wasm/compiler"
)

// oneFee is a module with one line, whose amount is made from local 1, the
// amount in minor units.
func oneFee(t *testing.T, code string) []byte {
	t.Helper()
	bytes := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	body := bytes("01017e4100290088082101410042808080801037008008410042003700880841002001" + code + "370090084100420037009808410042003700a00841280b")
	if len(body) > 120 {
		t.Fatal("sizes are of one byte here")
	}
	m := bytes("0061736d01000000010a026000017f60017f017f0303020001050401010101071b03066d656d6f727902000674675f62756600000571756f746500010a")
	m = append(m, byte(len(body)+8), 2, 5, 0, 0x41, 0x80, 0x08, 0x0b, byte(len(body)))
	m, err := compiler.Pack(append(m, body...), "Fee", abi.Free{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDiffHasBounds: rules whose fee has a step every few cents, or at every
// amount, are summed up. A smaller range is listed.
func TestDiffHasBounds(t *testing.T) {
	dir := t.TempDir()
	rules := map[string]string{
		"swiss": "42037e42c8018042027c42058042057e",      // (amount * 3 / 200 + 2) / 5 * 5
		"hash":  "42b1f3ddf1097e42148842ff0783",          // amount * 2654435761 >> 20 & 1023
		"line":  "42037e42c80180",                        // amount * 3 / 200
		"coin":  "42b1f3ddf1097e421488420183" + "42327e", // 0.00 or 0.50
	}
	for name, code := range rules {
		if err := os.WriteFile(filepath.Join(dir, name+".wasm"), oneFee(t, code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	diff := func(args ...string) (string, int) {
		t.Helper()
		code, out, errs := clitest.Inside(t.Context(), commands, nil, nil, append([]string{"rule", "diff"}, args...)...)
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", args, code, errs)
		}
		return out, strings.Count(out, "\n")
	}
	file := func(name string) string { return filepath.Join(dir, name+".wasm") }
	names := []string{"swiss", "hash", "coin"}
	if redistest.RaceDetector { // each is one goroutine, and takes fifty times as long
		names = names[1:2]
	}
	for _, name := range names {
		for _, other := range []string{"rule:card_fee@v2", file("line"), file("hash")} {
			out, lines := diff(other, file(name))
			if name != "hash" || other != file("hash") {
				if !strings.Contains(out, "ranges, too many to list") || !strings.Contains(out, "LOOKED AT") || !strings.Contains(out, "per cent") {
					t.Errorf("%s, %s:\n%s", other, name, out)
				}
			} else if !strings.Contains(out, "No amount changes its fee.") {
				t.Errorf("%s with itself:\n%s", name, out)
			}
			if lines > 40 {
				t.Errorf("%s, %s: %d lines", other, name, lines)
			}
		}
	}
	out, lines := diff(file("line"), file("swiss"), "--to", "60.00")
	if strings.Contains(out, "too many") || lines < 30 || lines > 100 {
		t.Errorf("%d lines:\n%s", lines, out)
	}

	// The counts are true where every amount is looked at.
	text, _ := diff(file("line"), file("coin"), "--to", "9.99", "--json")
	var found struct {
		Exact   bool
		Ranges  []any
		AtLeast int `json:"ranges_at_least"`
		Summary []struct {
			From, To        string
			LookedAt        int64 `json:"looked_at"`
			Same            int64
			Dearer, Cheaper int64
			Difference      [2]string
		}
	}
	if err := json.Unmarshal([]byte(text), &found, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if found.Exact || len(found.Ranges) != 0 || found.AtLeast <= maxListed || len(found.Summary) != 3 {
		t.Fatalf("%s", text)
	}
	s, same, dearer, cheaper := found.Summary[2], int64(0), int64(0), int64(0)
	for n := int64(100); n <= 999; n++ {
		line, coin := n*3/200, int64(uint64(n)*2654435761>>20&1)*50
		switch {
		case line == coin:
			same++
		case coin > line:
			dearer++
		default:
			cheaper++
		}
	}
	if s.From != "1.00" || s.To != "9.99" || s.LookedAt != 900 || s.Same != same || s.Dearer != dearer || s.Cheaper != cheaper || s.Difference != [2]string{"-0.14", "0.49"} {
		t.Errorf("%+v, want %d, %d, %d", s, same, dearer, cheaper)
	}
}

// TestDiffEnds: a comparison that is interrupted ends.
func TestDiffEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	engine, err := wasm.NewEngine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(t.Context())
	r := &source.Rule{Citation: examine.UnderTest, Module: oneFee(t, "42037e42c80180")}
	f, err := newFeeFunction(ctx, engine, r, "EUR", "shop.example")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if f.at(100); f.err != context.Canceled {
		t.Errorf("%v", f.err)
	}
}

func TestSpread(t *testing.T) {
	for _, ends := range [][2]int64{{1, 9}, {1, 1}, {1000, 1999}, {1000, 9999}, {1, 1 << 60}} {
		seen, first, last := map[int64]bool{}, false, false
		for n := range spread(ends[0], ends[1]) {
			if n < ends[0] || n > ends[1] {
				t.Fatalf("%d of %v", n, ends)
			}
			seen[n], first, last = true, first || n == ends[0], last || n == ends[1]
		}
		if !first || !last || int64(len(seen)) < min(ends[1]-ends[0]+1, perDecade)*9/10 {
			t.Errorf("%v: %d amounts, ends %t %t", ends, len(seen), first, last)
		}
	}
}

func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{clitest.Under("rule", DiffCommand(a))}
}

func TestMain(m *testing.M) {
	clitest.Main(m, func(a *cli.App) []*cobra.Command { return []*cobra.Command{clitest.Under("rule", examine.Command(a))} })
}
