package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/cmd/tollgate/examine"
	"tollgate/wasm"
)

// ticketLines are tickets as an export has them, one a line, priced with the
// first version of the card fee.
func ticketLines(t *testing.T, n int) []byte {
	t.Helper()
	ctx := context.Background()
	engine, err := wasm.NewEngine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(ctx)
	c := tollgate.Citation{Name: "card_fee", Version: 1}
	ref, err := engine.Load(ctx, c, clitest.BuiltinModule(t, c))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for i := range n {
		in := tollgate.PricingInput{Amount: tollgate.Money{Minor: int64(100 + 137*i), Currency: "EUR"}, Payee: "shop.example"}
		lines, err := engine.Quote(nil, []tollgate.RuleRef{ref}, in)
		if err != nil {
			t.Fatal(err)
		}
		ticket := &tollgate.Ticket{
			Object: "ticket", ID: fmt.Sprintf("tkt_%06d", i), MerchantAccountID: "ma_" + string(rune('a'+i%2)), Amount: in.Amount, Currency: "EUR",
			Payee: tollgate.KeptPayee(in.Payee), Total: tollgate.Money{Currency: "EUR"}, CreatedAt: tollgate.At(time.Unix(1_790_000_000+int64(i), 0)),
		}
		ticket.Evaluate(tollgate.EvaluationAuthorization, in, []tollgate.RuleRef{ref}, lines, "evt_1", ticket.CreatedAt)
		text, err := json.Marshal(ticket)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	return out.Bytes()
}

func TestBacktestOfLines(t *testing.T) {
	lines := ticketLines(t, 3000) // several chunks
	code, out, errs := clitest.Inside(context.Background(), commands, nil, bytes.NewReader(lines),
		"rule", "backtest", "rule:card_fee@v2", "--against", "rule:card_fee@v1", "--tickets", "-", "--json", "--top", "2")
	if code != 0 {
		t.Fatalf("%d, %s", code, errs)
	}
	var got struct {
		Tickets, Affected int64
		Groups            []struct {
			Account                      string `json:"merchant_account_id"`
			Count, Same, Dearer, Cheaper int64
			Before, After, Difference    string
			Largest                      []struct {
				Ticket        string `json:"ticket_id"`
				Before, After string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if got.Tickets != 3000 || got.Affected != 3000 || len(got.Groups) != 2 || got.Groups[0].Count != 1500 {
		t.Fatalf("%s", out)
	}
	g := got.Groups[1]
	if g.Account != "ma_b" || g.Same != 36 || g.Cheaper != 1464 || g.Dearer != 0 || len(g.Largest) != 2 || g.Largest[0].Ticket != "tkt_002995" {
		t.Errorf("%+v", g)
	}

	for what, k := range map[string]struct {
		input string
		args  []string
		code  int
		want  string
	}{
		"an account":     {string(lines), []string{"--account", "ma_a"}, 0, `"count": 1500`},
		"a time":         {string(lines), []string{"--since", "2026-09-21T15:03:18Z"}, 0, `"tickets": 2,`},
		"no line end":    {strings.TrimSuffix(string(lines), "\n"), nil, 0, `"tickets": 3000`},
		"empty lines":    {"\n\n" + string(lines) + "\n", nil, 0, `"tickets": 3000`},
		"nothing":        {"", nil, 0, `"tickets": 0`},
		"a bad line":     {string(lines) + "{\n", nil, 2, "line 3001"},
		"half a line":    {string(lines[:len(lines)-20]), nil, 2, "line 3000"},
		"other lines":    {strings.ReplaceAll(string(lines), `"lines_sha256":"`, `"lines_sha256":"0`), nil, 1, `"broken": 3000`},
		"lost modules":   {strings.ReplaceAll(string(lines), `"sha256":"`, `"sha256":"0`), nil, 1, `"not_run": 3000`},
		"no such module": {"", []string{"--modules", "nowhere"}, 2, "nowhere"},
	} {
		args := append([]string{"rule", "backtest", "rule:card_fee@v2", "--against", "rule:card_fee@v1", "--tickets", "-", "--json"}, k.args...)
		code, out, errs := clitest.Inside(context.Background(), commands, nil, strings.NewReader(k.input), args...)
		if code != k.code || !strings.Contains(out+errs, k.want) {
			t.Errorf("%s: exit %d, want %d with %q: %.300s %s", what, code, k.code, k.want, out, errs)
		}
	}
}

// TestBacktestOfExport is the way over the service: an export is made, waited
// for and fetched, and a file that is not what was promised is not believed.
func TestBacktestOfExport(t *testing.T) {
	file := ticketLines(t, 50)
	sum := sha256.Sum256(file)
	for what, k := range map[string]struct {
		status string
		cut    int
		code   int
		want   string
	}{
		"as it should be": {"succeeded", 0, 0, `"tickets": 24`}, // of the account, and not the first one
		"cut short":       {"succeeded", 600, 3, "the download broke off 5 times"},
		"failed":          {"failed", 0, 1, "the export failed: No room. (internal)"},
		"canceled":        {"canceled", 0, 1, "the export is canceled and has no file"},
	} {
		var asked atomic.Int64
		var request atomic.Value
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			switch r.Method + " " + r.URL.Path {
			case "POST /v1/exports/preview":
				body, _ := io.ReadAll(r.Body)
				request.Store(string(body))
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprint(w, `{"object":"export","id":"exp_1","status":"pending","progress":{"rows_done":0,"rows_total":null},"result":null,"error":null}`)
			case "GET /v1/exports/exp_1":
				switch asked.Add(1) {
				case 1:
					fmt.Fprint(w, `{"id":"exp_1","status":"running","progress":{"rows_done":20,"rows_total":50},"result":null,"error":null}`)
				default:
					fault, result := "null", fmt.Sprintf(`{"url":"x","rows":50,"bytes":%d,"sha256":%q}`, len(file), hex.EncodeToString(sum[:]))
					if k.status != "succeeded" {
						result = "null"
					}
					if k.status == "failed" {
						fault = `{"code":"internal","message":"No room."}`
					}
					fmt.Fprintf(w, `{"id":"exp_1","status":%q,"progress":{"rows_done":50,"rows_total":50},"result":%s,"error":%s}`, k.status, result, fault)
				}
			case "GET /v1/exports/exp_1/file":
				_, _ = w.Write(file[:len(file)-k.cut])
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		code, out, errs := clitest.Inside(ctx, commands, map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "token"}, nil,
			"rule", "backtest", "rule:card_fee@v2", "--against", "rule:card_fee@v1", "--json", "--since", "2026-09-21T14:13:20.001Z", "--account", "ma_a")
		cancel()
		server.Close()
		if code != k.code || !strings.Contains(out+errs, k.want) {
			t.Errorf("%s: exit %d, want %d with %q: %s %s", what, code, k.code, k.want, out, errs)
		}
		want := `{"dataset":"tickets","filters":{"created_after":"2026-09-21T14:13:20.001Z","merchant_account_id":"ma_a"},"format":"ndjson"}`
		if request.Load() != want {
			t.Errorf("%s: the export asked for is %v", what, request.Load())
		}
		if !strings.Contains(errs, "20 of 50 rows") {
			t.Errorf("%s: progress %q", what, errs)
		}
	}
}

func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{clitest.Under("rule", BacktestCommand(a), VerifyCommand(a))}
}

func TestMain(m *testing.M) {
	clitest.Main(m, func(a *cli.App) []*cobra.Command { return []*cobra.Command{clitest.Under("rule", examine.Command(a))} })
}
