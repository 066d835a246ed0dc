package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const program = "../../bin/tollgate"

// sandbox is a running `tollgate dev`.
type sandbox struct {
	t       *testing.T
	env     map[string]string
	url     string // of the API
	console string // address of the console, without its token
	entry   string // the same with it
	token   string
}

// start runs the program until the test ends, and waits until it has written a file.
func start(t *testing.T, env []string, until func() bool, out io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatal(errors.Join(errors.New("make console-test builds it"), err))
	}
	log := &locked{}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr, cmd.Stdout = log, log
	if out != nil {
		cmd.Stdout = out
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-ended
	})
	for began := time.Now(); !until(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience || cmd.ProcessState != nil {
			t.Fatalf("%s does not start: %s", args[0], log)
		}
	}
	return cmd
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// dev is a sandbox of its own.
func dev(t *testing.T, args ...string) *sandbox {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dev.env")
	start(t, nil, func() bool { _, err := os.Stat(file); return err == nil }, nil, append([]string{"dev", "--addr", "127.0.0.1:0", "--write-env", file, "--no-log"}, args...)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, env: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		s.env[name] = strings.Trim(value, "'")
	}
	s.url, s.entry = s.env["TOLLGATE_URL"], s.env["TOLLGATE_CONSOLE"]
	s.console, _, _ = strings.Cut(s.entry, "?")
	s.renew()
	return s
}

func (s *sandbox) renew() {
	s.t.Helper()
	resp, err := http.Get(s.url + "/sandbox/token")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token == "" {
		s.t.Fatalf("no token: %v", err)
	}
	s.token = answer.Token
}

// object is one of the API's.
type object map[string]any

func (o object) text(name string) string { text, _ := o[name].(string); return text }

func (o object) list(name string) (list []object) {
	all, _ := o[name].([]any)
	for _, one := range all {
		list = append(list, one.(map[string]any))
	}
	return list
}

var client = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// try asks the API. A write has a key of its own.
func (s *sandbox) try(method, path string, body any) (object, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost {
		req.Header.Set("Idempotency-Key", "key-"+strconv.FormatInt(time.Now().UnixNano(), 36)+"-"+strconv.Itoa(int(next.add())))
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	var answer object
	if len(text) > 0 {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

var next counter

func (s *sandbox) ask(method, path string, body any) object {
	s.t.Helper()
	answer, err := s.try(method, path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

func (s *sandbox) pay(more object) object {
	s.t.Helper()
	return s.ask("POST", "/v1/payments", with(object{"amount": "100.00", "currency": "EUR", "payee": "shop.example"}, more))
}

func with(o, more object) object {
	for name, value := range more {
		o[name] = value
	}
	return o
}

// rows makes captured payments, many at a time.
func (s *sandbox) rows(count int) {
	s.t.Helper()
	var all sync.WaitGroup
	failed := make(chan error, count)
	turns := make(chan int, count)
	for i := range count {
		turns <- i
	}
	close(turns)
	for range 16 {
		all.Go(func() {
			for i := range turns {
				_, err := s.try("POST", "/v1/payments", object{"amount": fmt.Sprintf("%d.00", 1+i%90), "currency": "EUR", "payee": "shop.example", "capture_method": "automatic", "reference": fmt.Sprintf("order-%05d", i)})
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		s.t.Fatal(err)
	default:
	}
}

// run is a command of the program on this sandbox.
func (s *sandbox) run(args ...string) string {
	s.t.Helper()
	path, err := filepath.Abs(program)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), path, args...)
	cmd.Dir = s.t.TempDir()
	cmd.Env = os.Environ()
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tollgate %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// beside is `tollgate console`, with its entry and its address.
func (s *sandbox) beside(args ...string) (entry, address string) {
	s.t.Helper()
	var env []string
	for name, value := range s.env {
		env = append(env, name+"="+value)
	}
	out := &locked{}
	start(s.t, env, func() bool { return strings.Contains(out.String(), "Ctrl-C") }, out, append([]string{"console", "--no-open"}, args...)...)
	for field := range strings.FieldsSeq(out.String()) {
		if strings.HasPrefix(field, "http://") && strings.Contains(field, "/console?token=") {
			address, _, _ = strings.Cut(field, "?")
			return field, address
		}
	}
	s.t.Fatalf("no address: %s", out)
	return "", ""
}

// world has an object of every kind that has a page.
func (s *sandbox) world() map[string]string {
	s.t.Helper()
	paid := s.pay(object{"reference": "order-17", "description": "Two chairs", "metadata": object{"cart": "42"}})
	s.ask("POST", "/v1/payments/"+paid.text("id")+"/captures", object{"amount": "60.00"})
	refund := s.ask("POST", "/v1/payments/"+paid.text("id")+"/refunds", object{"amount": "5.00", "reason": "one was broken"})
	export := s.ask("POST", "/v1/exports/preview", object{"dataset": "payments", "format": "csv"})
	shadow := s.ask("POST", "/v1/shadows", object{"rule": "rule:card_fee@v1", "against": "rule:card_fee@v2"})
	s.run("trigger", "payout.paid")
	s.renew() // days have passed
	payouts := s.ask("GET", "/v1/payouts", nil).list("data")
	if len(payouts) == 0 {
		s.t.Fatal("no payout was made")
	}
	account := s.ask("GET", "/v1/merchant-accounts/"+s.env["TOLLGATE_MERCHANT_ACCOUNT"], nil)
	perimeter := object(account["perimeter"].(map[string]any))
	event := s.ask("GET", "/v1/events", nil).list("data")[0]
	id := func(o object) string { return cmp.Or(o.text("id"), o.text("job_id")) }
	return map[string]string{
		"payment": id(paid), "ticket": paid.text("ticket_id"), "refund": id(refund), "export": id(export), "shadow": id(shadow), "payout": id(payouts[0]), "event": id(event),
		"perimeter": id(perimeter), "account": id(account), "organization": s.env["TOLLGATE_ORGANIZATION"], "grant": s.env["TOLLGATE_GRANT"],
		"webhook": s.env["TOLLGATE_WEBHOOK"], "rule_set": s.env["TOLLGATE_RULE_SET"], "rule": "rul_card_fee_v2",
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// label publishes a rule of this name whose label is what a team may write.
func (s *sandbox) label(name, label string) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), name)
	s.run("rule", "new", dir)
	file := filepath.Join(dir, "rule.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^label = .*$`).ReplaceAllLiteralString(string(text), "label = '"+label+"'")
	if changed == string(text) {
		s.t.Fatalf("a new rule has no label:\n%s", text)
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.run("rule", "test", dir, "--update")
	s.run("rule", "publish", dir, "--rule", "rule:"+name+"@v1")
}
