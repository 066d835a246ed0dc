package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// native is `tollgate dev`.
type native struct {
	t          *testing.T
	url, token string
}

func startNative(t *testing.T) *native {
	t.Helper()
	env := filepath.Join(t.TempDir(), "dev.env")
	c := exec.CommandContext(t.Context(), "../../bin/tollgate", "dev", "--addr", "127.0.0.1:0", "--no-log", "--write-env", env)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("tollgate dev ends: %v", err)
		}
		if strings.Contains(line, "Ctrl-C") { // all is printed, the file is there
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	text, err := os.ReadFile(env)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) string {
		return regexp.MustCompile(`(?m)^` + name + `='?([^'\n]*)`).FindStringSubmatch(string(text))[1]
	}
	return &native{t: t, url: value("TOLLGATE_URL"), token: value("TOLLGATE_TOKEN")}
}

func (n *native) ask(requests ...request) (answers []answer) {
	n.t.Helper()
	for _, r := range requests {
		req, err := http.NewRequestWithContext(n.t.Context(), r.Method, n.url+r.Path, strings.NewReader(r.Body))
		if err != nil {
			n.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+n.token)
		if r.Body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if r.Key != "" {
			req.Header.Set("Idempotency-Key", r.Key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			n.t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			n.t.Fatal(err)
		}
		answers = append(answers, answer{resp.StatusCode, string(text)})
	}
	return answers
}

// own are ids and times, which are of each sandbox alone.
var own = regexp.MustCompile(`\b[a-z]+_[0-9a-hjkmnp-tv-z]{26}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

func (a answer) common() string {
	return fmt.Sprint(a.Status, " ", own.ReplaceAllString(a.Text, "…"))
}

// A page answers what the native service does, byte for byte but for ids and times:
// quotes with their digests, payments, tickets.
func TestSameAsNative(t *testing.T) {
	quotes, payments, atOnce := 200, 20, 100
	if all() {
		quotes, payments = 10_000, 1000
	}
	n := startNative(t)
	b := launch(t, t.TempDir())
	b.open(serve(t).URL + "/below/")
	token, fetched := b.token(), time.Now()
	random := rand.New(rand.NewPCG(1, 2))
	payees := []string{"shop.example", "deny.test", "refuse.test", "https://shop.example/a", "someone@shop.example"}
	input := func() string {
		return fmt.Sprintf(`"amount":"%d.%02d","currency":%q,"payee":%q`, random.IntN(3000), random.IntN(100),
			[]string{"EUR", "USD", "GBP", "PLN"}[random.IntN(4)], payees[random.IntN(len(payees))])
	}
	// both asks both, and compares.
	both := func(inPage, natively []request) (page, other []answer) {
		t.Helper()
		if time.Since(fetched) > 5*time.Minute {
			token, fetched = b.token(), time.Now()
		}
		page, other = b.ask(token, inPage...), n.ask(natively...)
		for i := range page {
			if page[i].common() != other[i].common() {
				t.Fatalf("%s:\npage   %v\nnative %v", inPage[i].Body, page[i], other[i])
			}
		}
		return page, other
	}
	digests := 0
	for done := 0; done < quotes; done += atOnce {
		requests := make([]request, atOnce)
		for i := range requests {
			requests[i] = request{Method: "POST", Path: "/v1/quotes", Body: "{" + input() + "}"}
		}
		page, _ := both(requests, requests)
		for _, a := range page {
			digests += strings.Count(a.Text, `"digest":"`)
		}
	}
	if digests == 0 {
		t.Error("no quote had a digest")
	}
	for i := range payments {
		create := request{"POST", "/v1/payments", "{" + input() + `,"capture_method":"` + []string{"manual", "automatic"}[i%2] + `"}`, fmt.Sprint("key-", i)}
		page, other := both([]request{create}, []request{create})
		if page[0].Status != http.StatusCreated {
			continue
		}
		next := func(a answer) []request {
			var p struct {
				ID       string
				Status   string
				TicketID string `json:"ticket_id"`
			}
			if err := json.Unmarshal([]byte(a.Text), &p); err != nil {
				t.Fatal(err)
			}
			ticket := request{Method: "GET", Path: "/v1/tickets/" + p.TicketID}
			if p.Status != "authorized" {
				return []request{ticket}
			}
			return []request{{"POST", "/v1/payments/" + p.ID + "/captures", "{}", fmt.Sprint("capture-", i)}, ticket}
		}
		both(next(page[0]), next(other[0]))
	}
}
