package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/redistest"
)

// sell makes a payment that is captured at once.
func (s *shop) sell(t testing.TB, minor int64) {
	t.Helper()
	id := s.pay(t, minor)
	s.capturePart(t, id, minor)
}

// moved lists the organization's transactions of some types.
func (s *shop) moved(t testing.TB, types ...tollgate.TransactionType) (list []tollgate.Transaction) {
	t.Helper()
	for q := (ledger.TransactionQuery{Types: types, Limit: 100}); ; {
		page, next, more, err := s.Transactions(t.Context(), s.Caller, q)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page...)
		if q.After = next; !more {
			return list
		}
	}
}

// conserved checks that everything captured is settled by paid payouts.
func (s *shop) conserved(t testing.TB, minor int64) {
	t.Helper()
	paid, settled := int64(0), map[string]int64{}
	for _, x := range s.moved(t, tollgate.TransactionCapture) {
		if x.Status != tollgate.TransactionSettled || x.PayoutID == nil {
			t.Errorf("%s is %s", x.ID, x.Status)
			continue
		}
		settled[*x.PayoutID] += x.Amount.Minor
	}
	for _, x := range s.moved(t, tollgate.TransactionPayout) {
		switch x.Status {
		case "paid":
			paid += x.Amount.Minor
			if settled[*x.PayoutID] != x.Amount.Minor {
				t.Errorf("%s is of %s and settles %d", *x.PayoutID, x.Amount, settled[*x.PayoutID])
			}
		case "failed":
			if settled[*x.PayoutID] != 0 {
				t.Errorf("%s failed and settles %d", *x.PayoutID, settled[*x.PayoutID])
			}
		default:
			t.Errorf("%s is %s", *x.PayoutID, x.Status)
		}
	}
	if paid != minor {
		t.Errorf("%d is paid, %d was captured", paid, minor)
	}
}

// The payout step is asked again when it does not know, and not before its
// time; a failure is final for the payout and not for the money.
func TestPayoutStep(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	var asked []string
	answers := []error{errors.New("timed out"), errors.New("timed out"), nil, nil}
	failures := []string{"", "", "no such account", ""}
	w := newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now, Pay: func(_ context.Context, p tollgate.Payout) (tollgate.PayoutOutcome, error) {
		n := len(asked)
		asked = append(asked, p.ID)
		if p.Amount().Minor != 1000 || p.Currency != "EUR" || p.Status != tollgate.PayoutStatusInTransit {
			t.Errorf("asked to pay %+v", p)
		}
		return tollgate.PayoutOutcome{Failure: failures[n]}, answers[n]
	}})
	s.sell(t, 1000)
	s.Clock.Advance(24 * time.Hour)
	for _, step := range []struct {
		advance time.Duration
		asked   int
		fails   bool
	}{
		{0, 1, true},
		{0, 1, false},
		{59 * time.Second, 1, false},
		{time.Second, 2, true},
		{time.Minute, 3, false},
		{time.Hour, 3, false},
		{24 * time.Hour, 4, false},
		{48 * time.Hour, 4, false},
	} {
		s.Clock.Advance(step.advance)
		if _, err := w.PayoutRound(t.Context()); (err != nil) != step.fails || len(asked) != step.asked {
			t.Fatalf("at %s: asked %d times, want %d; %v", s.Clock.Now(), len(asked), step.asked, err)
		}
	}
	if asked[0] != asked[1] || asked[1] != asked[2] || asked[3] == asked[0] {
		t.Errorf("asked for %v", asked)
	}
	s.conserved(t, 1000)
	for kind, want := range map[tollgate.EventType]int{tollgate.PayoutCreated: 2, tollgate.PayoutFailed: 1, tollgate.PayoutPaid: 1} {
		n := 0
		for _, times := range s.events(t, kind) {
			n += times
		}
		if n != want {
			t.Errorf("%d events %s, want %d", n, kind, want)
		}
	}
}

// A worker that stops while a payout is begun, or in its step, leaves it to the
// next one, which asks at once.
func TestPayoutStepBrokenOff(t *testing.T) {
	url := redistest.URL(t)
	s := newShop(t, url)
	for _, at := range []string{"begun", "step"} {
		s.sell(t, 1000)
		s.Clock.Advance(48 * time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		commits := 0
		store := openWith(t, rediskv.Options{URL: url, Clock: s.Clock.Now, Observe: func(operation string, _ time.Duration, _ error) {
			if operation == "commit" {
				commits++
			}
			if at == "begun" && commits == 2 { // its sum is checked first
				stop()
			}
		}})
		asked := 0
		pay := func(ctx context.Context, _ tollgate.Payout) (tollgate.PayoutOutcome, error) {
			if asked++; asked == 1 && at == "step" {
				stop()
			}
			return tollgate.PayoutOutcome{}, ctx.Err()
		}
		w := newWorker(t, worker.Config{Store: store, Clock: s.Clock.Now, Pay: pay})
		if _, err := w.PayoutRound(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %s: %v", at, err)
		}
		if at == "begun" && asked != 0 {
			t.Error("a payout step was asked after the end")
		}
		before := asked
		w = newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now, Pay: pay})
		if _, err := w.PayoutRound(t.Context()); err != nil || asked != before+1 {
			t.Errorf("stopped at %s: the next worker asked %d times, %v", at, asked-before, err)
		}
	}
	s.conserved(t, 2000)
}

// Workers at the same time make each payout once, and ask for it once.
func TestWorkersSharePayouts(t *testing.T) {
	address := redistest.URL(t)
	s := newShop(t, address)
	const days = 20
	for range days {
		s.sell(t, 1000)
		s.sell(t, 500)
		s.Clock.Advance(24 * time.Hour)
	}
	var lock sync.Mutex
	asked := map[string]int{}
	var group sync.WaitGroup
	for range 3 {
		w := newWorker(t, worker.Config{Store: open(t, address, s.Clock), Clock: s.Clock.Now, Pay: func(_ context.Context, p tollgate.Payout) (tollgate.PayoutOutcome, error) {
			lock.Lock()
			defer lock.Unlock()
			asked[p.ID]++
			return tollgate.PayoutOutcome{}, nil
		}})
		group.Go(func() {
			for range 5 {
				if _, err := w.PayoutRound(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if len(asked) != days {
		t.Errorf("%d payouts were asked for, want %d", len(asked), days)
	}
	for id, n := range asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", id, n)
		}
	}
	s.conserved(t, days*1500)
}

// settledAll reports whether nothing that was captured waits for its payout.
func (s *shop) settledAll(t testing.TB) bool {
	t.Helper()
	return !slices.ContainsFunc(s.moved(t, tollgate.TransactionCapture), func(x tollgate.Transaction) bool { return x.Status != tollgate.TransactionSettled })
}

// Variables of a child that makes payouts: its Redis, its clock, after how many
// calls it kills itself, and where the payout step keeps its book.
const (
	payerVariable = "TOLLGATE_TEST_PAYER"
	clockVariable = "TOLLGATE_TEST_PAYER_CLOCK"
	diesVariable  = "TOLLGATE_TEST_PAYER_DIES"
	bookVariable  = "TOLLGATE_TEST_PAYER_BOOK"
)

// TestChildPays is the worker that TestPayerKilled starts. It kills itself, as
// SIGKILL does, between two calls or in the payout step.
func TestChildPays(t *testing.T) {
	address := os.Getenv(payerVariable)
	if address == "" {
		return
	}
	unix, _ := strconv.ParseInt(os.Getenv(clockVariable), 10, 64)
	dies, _ := strconv.Atoi(os.Getenv(diesVariable))
	var steps atomic.Int64
	now := func() time.Time { return time.UnixMilli(unix).UTC() }
	step := func() {
		if steps.Add(1) == int64(dies) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	store := openWith(t, rediskv.Options{URL: address, Clock: now, Observe: func(string, time.Duration, error) { step() }})
	w := newWorker(t, worker.Config{Store: store, Clock: now, Concurrency: 1, Pay: func(_ context.Context, p tollgate.Payout) (tollgate.PayoutOutcome, error) {
		step()
		line := fmt.Sprintf("%s %d\n", p.ID, p.Amount().Minor)
		book, err := os.OpenFile(os.Getenv(bookVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return tollgate.PayoutOutcome{}, err
		}
		_, err = book.WriteString(line)
		_ = book.Close()
		step()
		if strings.ContainsAny(p.ID[len(p.ID)-1:], "0123456789") { // the same answer each time
			return tollgate.PayoutOutcome{Failure: "no such account"}, err
		}
		return tollgate.PayoutOutcome{}, err
	}})
	if _, err := w.PayoutRound(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Workers die at every point of making payouts; in the end every capture is
// settled by one payout, and each payout was asked for one amount.
func TestPayerKilled(t *testing.T) {
	t.Parallel()
	address := redistest.URL(t)
	s := newShop(t, address)
	var captured int64
	sell := func(n int) {
		for i := range n {
			s.sell(t, int64(100+i%7))
			captured += int64(100 + i%7)
		}
	}
	sell(1200) // several batches
	for range 8 {
		s.Clock.Advance(24 * time.Hour)
		sell(3)
	}
	s.Clock.Advance(48 * time.Hour)
	book := filepath.Join(t.TempDir(), "book")
	died := 0
	for run := 0; ; run++ {
		s.Clock.Advance(3 * time.Minute) // leases run out
		if run > 25 {
			s.Clock.Advance(24 * time.Hour) // what failed is due again
		}
		dies := 0
		if run < 40 {
			dies = 2 + run*5%13
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestChildPays$")
		cmd.Env = append(os.Environ(), payerVariable+"="+address, fmt.Sprintf("%s=%d", clockVariable, s.Clock.Now().UnixMilli()),
			fmt.Sprintf("%s=%d", diesVariable, dies), bookVariable+"="+book)
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%v\n%s", err, out)
		}
		if err != nil {
			died++
		} else if run >= 44 && (run >= 100 || s.settledAll(t)) { // as the ids have it, the step fails a few more days
			break
		}
	}
	if died < 20 {
		t.Errorf("only %d workers died", died)
	}
	s.conserved(t, captured)
	text, err := os.ReadFile(book)
	if err != nil {
		t.Fatal(err)
	}
	amounts := map[string]string{}
	for line := range bytes.Lines(text) {
		id, amount, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if was, ok := amounts[id]; ok && was != amount {
			t.Errorf("%s was asked for %s and for %s", id, was, amount)
		}
		amounts[id] = amount
	}
	failed := 0
	for _, x := range s.moved(t, tollgate.TransactionPayout) {
		if x.Status == "failed" {
			failed++
		}
	}
	t.Logf("%d workers died, %d payouts failed, %d were asked for %d times", died, failed, len(amounts), bytes.Count(text, []byte("\n")))
}

// Events have Redis' time: in a sandbox whose clock is months ahead they are as
// old as they really are, and none is lost.
func TestEventsOfASandboxAhead(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	s.Clock.Set(time.Now().Add(90 * 24 * time.Hour))
	s.NextMilli(t) // the newest event stays, and those of its millisecond
	s.pay(t, 1000)
	w := newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now, Wall: time.Now})
	if n, err := w.TrimRound(t.Context()); n != 0 || err != nil {
		t.Errorf("trimmed %d events that are new: %v", n, err)
	}
	before := len(s.moved(t))
	q := ledger.TransactionQuery{CreatedAfter: s.Now() - 1, CreatedBefore: s.Now() + 1, Limit: 100}
	if found, _, _, err := s.Transactions(t.Context(), s.Caller, q); err != nil || before == 0 || len(found) != before {
		t.Errorf("%d of %d transactions between two times of the sandbox: %v", len(found), before, err)
	}
	// Without real time they would be.
	w = newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now})
	if n, err := w.TrimRound(t.Context()); n == 0 || err != nil {
		t.Errorf("nothing was trimmed, so this tests nothing: %v", err)
	}
}
