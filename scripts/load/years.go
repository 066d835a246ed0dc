package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/handlers/keyring"
	"tollgate/handlers/service"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/loop"
	"tollgate/handlers/worker/sealing"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/ledger"
	"tollgate/wasm"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
	// month is how often the clock waits for the worker, and logs are trimmed.
	month = 30 * day
	// keptEvents is for how long they are kept.
	keptEvents = 30 * day
	// ruleSet is that of the shop of -years.
	ruleSet = "rs_01kb7z2c000000000000001000"
)

// years plays a shop over years, whose old payments go to an archive, with other rules and
// another cutoff in each of them, and proves at the end that nothing of it is lost.
type years struct {
	*market
	redis *redis.Client // nil: nobody says how much memory it has taken
	out   io.Writer
	year  int // from 0
	month int

	mu    sync.Mutex
	first []string // the payments of the first year
}

// rows is the format of a row.
const rows = "%4v  %6v  %8v  %8v  %8v  %8v  %8v  %5v  %v\n"

// playYears prints a row for each year, and what was proved.
func playYears(ctx context.Context, out io.Writer, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	server, err := startRedis(ctx, o.dir, o.port, o.shim)
	if err != nil {
		return err
	}
	defer server.kill()
	if o.archiveDir, err = os.MkdirTemp(server.dir, "archive-*"); err != nil {
		return err
	}
	defer os.RemoveAll(o.archiveDir)
	return yearsIn(ctx, out, rediskv.Options{URL: server.url(), Partitions: 1}, o, server.move, server.client)
}

// yearsIn is playYears in a Redis.
func yearsIn(ctx context.Context, out io.Writer, in rediskv.Options, o options, moved func(time.Duration) error, client *redis.Client) error {
	begun := time.Now()
	y := &years{redis: client, out: out}
	o.ahead = 12 * time.Hour // nobody asks for more than 30 days in a second
	o.shops, o.config, o.passed, o.created = shopOf(0), configOf(0), y.passed, y.created
	m, err := open(ctx, in, o, moved)
	if err != nil {
		return err
	}
	defer m.close()
	y.market = m
	fmt.Fprintf(out, rows, "year", "cutoff", "payments", "in Redis", "bytes", "archived", "bytes", "packs", "rules")
	if err := m.fill(ctx); err != nil {
		return err
	}
	if err := y.row(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s, of %d years.\n\n", time.Since(begun).Round(time.Second), y.year+1)
	return y.prove(ctx, out)
}

// shopOf is the shop in a year: its cutoff is another one each time.
func shopOf(n int) []shop {
	cutoffs := []string{"17:00", "18:30", "16:00", "20:00", "12:00"}
	return []shop{
		{"ma_01kb7z2c000000000000001001", "Shop", 5, cutoffs[n%len(cutoffs)], "Europe/Berlin", "target", "daily", []currency{{"EUR", 1, 1}}},
		{"ma_01kb7z2c000000000000001002", "Abroad", 1, cutoffs[(n+1)%len(cutoffs)], "Europe/Zurich", "none", "weekly", []currency{{"CHF", 1, 1}, {"EUR", 0.3, 1}}},
	}
}

// rulesOf are the rules in a year.
func rulesOf(n int) []tollgate.Citation {
	fee := func(name string, version int) tollgate.Citation {
		return tollgate.Citation{Name: name, Version: version}
	}
	sets := [][]tollgate.Citation{
		{fee("card_fee", 1)},
		{fee("card_fee", 1), fee("platform_fee", 1)},
		{fee("card_fee", 2), fee("platform_fee", 1)},
		{fee("card_fee", 2), fee("platform_fee", 1), fee("cross_border", 1)},
		{fee("card_fee", 2), fee("platform_fee", 1), fee("cross_border", 2)},
	}
	return sets[n%len(sets)]
}

// configOf is the organization with the shop of a year.
func configOf(n int) tollgate.Config {
	c := config(shopOf(n))
	set := tollgate.RuleSet{ID: ruleSet, Version: int64(n + 1), Rules: rulesOf(n)}
	c.RuleSets = []tollgate.RuleSet{set}
	for i := range c.MerchantAccounts {
		c.MerchantAccounts[i].RuleSet, c.MerchantAccounts[i].Cutoff.Version = set, int64(n+1)
	}
	return c
}

// passed is told how far the clock has come, before the next payment.
func (y *years) passed(ctx context.Context, since time.Duration) error {
	for ; since >= time.Duration(y.month+1)*month; y.month++ {
		y.later.idle()
		if err := y.settle(ctx); err != nil { // days pass faster than payouts are made
			return err
		}
		sealer, err := y.sealer()
		if err != nil {
			return err
		}
		for p := range y.store.Partitions() {
			if _, err := sealer.Partition(ctx, p); err != nil {
				return err
			}
			if _, err := sealer.Trim(ctx, p, y.store.Now().Add(-worker.DefaultArchiveAfter)); err != nil {
				return err
			}
			if _, err := y.store.TrimEvents(ctx, p, y.store.Now().Add(-keptEvents)); err != nil {
				return err
			}
			if err := y.store.CoolPostings(ctx, p, y.store.Now().Add(-worker.DefaultArchiveAfter)); err != nil {
				return err
			}
		}
	}
	if n := int(since / year); n > y.year && y.span-since > day { // it begins at midnight, and ends now
		if err := y.row(ctx); err != nil {
			return err
		}
		y.year = n
		_, err := service.Provision(ctx, y.store, configOf(n), nil, false)
		return err
	}
	return nil
}

// sealer seals the audit record, and puts what is old of it into packs.
func (y *years) sealer() (*sealing.Sealer, error) {
	ring, err := keyring.New(keyring.Config{Store: y.store, Vault: y.service.Vault, Entropy: rand.Reader, Clock: time.Now})
	if err != nil {
		return nil, err
	}
	return sealing.New(sealing.Config{
		Common:  loop.Common{Store: y.store, Clock: y.clock.Now, Wall: y.clock.Now, Log: slog.New(slog.DiscardHandler), Observer: loop.Unobserved{}},
		Keyring: ring,
	}), nil
}

func (y *years) created(id string) {
	if y.year == 0 {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.first = append(y.first, id)
	}
}

// hot are the payments that Redis has, by when they were made.
func (y *years) hot(ctx context.Context, each func(id string, made time.Time)) error {
	prefix := y.store.Space(sandbox.Organization).Object(tollgate.PrefixPayment)
	return y.store.Masters(ctx, func(ctx context.Context, _ string, node rediskv.Client) error {
		keys := node.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			id := tollgate.PrefixPayment + strings.TrimPrefix(keys.Val(), prefix)
			if made, is := tollgate.IDTime(id); is {
				each(id, made)
			}
		}
		return keys.Err()
	})
}

// row prints how a year ends.
func (y *years) row(ctx context.Context) error {
	hot, archived, bytes, packs := 0, int64(0), int64(0), 0
	if err := y.hot(ctx, func(string, time.Time) { hot++ }); err != nil {
		return err
	}
	for p := range y.store.Partitions() {
		lines, _, err := y.archive.Manifest(ctx, p)
		if err != nil {
			return err
		}
		for _, l := range lines {
			archived, bytes, packs = archived+l.Payments.Rows, bytes+l.Size(), packs+1
		}
	}
	memory := int64(0)
	if y.redis != nil {
		memory = used(y.redis)
	}
	var rules []string
	for _, c := range rulesOf(y.year) {
		rules = append(rules, fmt.Sprintf("%s %d", c.Name, c.Version))
	}
	_, err := fmt.Fprintf(y.out, rows, y.year+1, shopOf(y.year)[0].cutoff, y.made.Load(), hot, size(memory), archived, size(bytes), packs, strings.Join(rules, ", "))
	return err
}

// prove compares what is there at the end: Redis has what is young, everything agrees with
// everything else, and each ticket of the first year comes out of its rules again.
func (y *years) prove(ctx context.Context, out io.Writer) error {
	y.rest() // who would archive, too
	for p := range y.store.Partitions() {
		for _, work := range []func(context.Context, int) (int, error){
			func(ctx context.Context, p int) (int, error) {
				return y.archive.Archive(ctx, p, worker.DefaultArchiveAfter)
			},
			y.store.PostTransactions,
			y.store.CutLogs,
		} {
			for n := 1; n > 0; {
				var err error
				if n, err = work(ctx, p); err != nil {
					return err
				}
			}
		}
	}
	if err := y.young(ctx, out); err != nil {
		return err
	}
	found := 0
	w := &checks.Walk{Looked: map[string]int64{}, Found: func(f checks.Finding) {
		found++
		fmt.Fprintf(out, "%s %s: %s\n", f.Object, f.ID, f.Message)
	}}
	err := y.store.CheckKeys(ctx, w)
	for p := 0; p < y.store.Partitions() && err == nil; p++ {
		if err = y.store.CheckPartition(ctx, p, checks.Place{}, w); err == nil {
			_, err = y.archive.Check(ctx, p, false, func(f archive.Finding) {
				if f.Orphan { // the worker was stopped in the middle
					return
				}
				found++
				fmt.Fprintf(out, "%s: %s\n", f.File, f.Message)
			})
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The check looked at %d payments in Redis and %d in the archive: %d findings.\n", w.Looked["payments"], w.Looked["archived payments"], found)
	if found > 0 {
		return errors.New("the check found something")
	}
	if err := y.reexecute(ctx, out); err != nil {
		return err
	}
	if err := y.weigh(ctx, out); err != nil {
		return err
	}
	return y.read(ctx, out)
}

// read prints how long it takes to find what is old.
func (y *years) read(ctx context.Context, out io.Writer) error {
	y.ids = map[string][]string{"payment": y.first}
	for _, id := range y.first {
		y.ids["ticket"] = append(y.ids["ticket"], tollgate.TicketOf(id))
	}
	for n := range 1000 {
		passed := y.span * time.Duration(n) / 1000
		y.ids["moment"] = append(y.ids["moment"], y.clock.Now().Add(passed-y.span).UTC().Format(time.RFC3339))
		y.ids["payee"] = append(y.ids["payee"], payeeName(n))
		y.ids["reference"] = append(y.ids["reference"], reference(1+n*y.payments/1000))
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nread\tp50\tp99\t")
	for _, asked := range []request{
		get("a payment of the first year", "/v1/payments/{payment}"),
		get("its ticket", "/v1/tickets/{ticket}"),
		get("its transactions", "/v1/transactions?payment_id={payment}"),
		get("20 payments since any day", "/v1/payments?created_after={moment}&limit=20"),
		get("20 payments to a payee", "/v1/payments?payee={payee}&limit=20"),
		get("the payment with a reference", "/v1/payments?reference={reference}"),
	} {
		var took []time.Duration
		for range 300 {
			one, err := y.timed(ctx, asked)
			if err != nil {
				return fmt.Errorf("%s: %w", asked.name, err)
			}
			took = append(took, one)
		}
		slices.Sort(took)
		at := func(hundredth int) time.Duration {
			return took[(len(took)-1)*hundredth/100].Round(10 * time.Microsecond)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t\n", asked.name, at(50), at(99))
	}
	return table.Flush()
}

// weigh prints what takes up Redis' memory.
func (y *years) weigh(ctx context.Context, out io.Writer) error {
	if y.redis == nil {
		return nil
	}
	is, err := weights(ctx, y.redis)
	if err != nil {
		return err
	}
	var list []string
	for _, kind := range slices.SortedFunc(maps.Keys(is), func(a, b string) int { return cmp.Compare(is[b], is[a]) }) {
		if is[kind] >= 1e5 {
			list = append(list, fmt.Sprintf("%s %s", kind, size(is[kind])))
		}
	}
	_, err = fmt.Fprintf(out, "Redis' memory: %s.\n", strings.Join(list, ", "))
	return err
}

// young holds that something has come of each payment in Redis not long ago. Packs wait for
// a tenth longer than asked.
func (y *years) young(ctx context.Context, out io.Writer) error {
	const most = worker.DefaultArchiveAfter + worker.DefaultArchiveAfter/10
	var old []string
	hot := 0
	if err := y.hot(ctx, func(id string, made time.Time) {
		if hot++; y.clock.Now().Sub(made) > most {
			old = append(old, id)
		}
	}); err != nil {
		return err
	}
	for _, id := range old {
		last := tollgate.Instant(0)
		moves, _, _, err := y.store.Transactions(ctx, rediskv.Caller{Organization: sandbox.Organization}, ledger.TransactionQuery{PaymentID: id, Limit: 100})
		for _, x := range moves {
			last = max(last, x.UpdatedAt)
		}
		if quiet := y.clock.Now().Sub(last.Time()); err != nil || quiet > most {
			return cmp.Or(err, fmt.Errorf("nothing has come of %s for %d days, and it is not in the archive", id, int(quiet/day)))
		}
	}
	_, err := fmt.Fprintf(out, "Redis has %d payments. Each was made, settled or refunded in the last %d days; the archive has all others.\n", hot, int(most/day))
	return err
}

// reexecute runs the rules of all tickets of the first year again.
func (y *years) reexecute(ctx context.Context, out io.Writer) error {
	engine, err := wasm.NewEngine(ctx)
	if err != nil {
		return err
	}
	defer engine.Close(context.WithoutCancel(ctx))
	if err := engine.LoadBuiltin(ctx); err != nil {
		return err
	}
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var next, evaluations atomic.Int64
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for n := next.Add(1); n <= int64(len(y.first)) && ctx.Err() == nil; n = next.Add(1) {
				count, err := y.reexecuted(ctx, engine, y.first[n-1])
				if evaluations.Add(count); err != nil {
					failed(err)
				}
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d tickets of the first year, %d evaluations: each came out the same again.\n", len(y.first), evaluations.Load())
	return err
}

// reexecuted runs the rules of a payment's ticket again.
func (y *years) reexecuted(ctx context.Context, engine *wasm.Engine, payment string) (evaluations int64, err error) {
	id := tollgate.TicketOf(payment)
	w, _, err := y.api.once(ctx, http.MethodGet, "/v1/tickets/"+id, "", "")
	if err != nil {
		return 0, err
	}
	var t tollgate.Ticket
	if err := json.Unmarshal(w.Body.Bytes(), &t); err != nil || w.Code != http.StatusOK {
		return 0, cmp.Or(err, fmt.Errorf("%s: %d %s", id, w.Code, w.Body))
	}
	for i := range t.Evaluations {
		e := &t.Evaluations[i]
		lines, err := engine.Reexecute(e)
		if err == nil && tollgate.LinesSHA256(lines) != e.LinesSHA256 {
			err = errors.New("it has other lines now")
		}
		if err != nil {
			return 0, fmt.Errorf("%s: evaluation %d: %w", id, e.Number, err)
		}
	}
	return int64(len(t.Evaluations)), nil
}
