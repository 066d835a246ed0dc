package rediskv_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/history"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// goBack has Redis restart without the last event of the organization.
func (f *fixture) goBack(t *testing.T, server *redistest.Server) {
	t.Helper()
	f.shorten(t)
	server.Kill()
	server.Restart()
}

// shorten takes the last event of the organization away.
func (f *fixture) shorten(t *testing.T) {
	t.Helper()
	raw := rawClient(t, f.URL)
	k := f.Space(f.Caller.Organization)
	must(t, raw.HIncrBy(t.Context(), k.Sequences(), "event", -1).Err())
	last := raw.XRevRangeN(t.Context(), k.Events(), "+", "-", 1).Val()
	must(t, raw.XDel(t.Context(), k.Events(), last[0].ID).Err())
}

// record is what is stored of the organization's history.
func (f *fixture) historyRecord(t *testing.T, raw redis.UniversalClient) history.Record {
	t.Helper()
	key := rediskv.HistoryKey(f.Space(f.Caller.Organization).Partition)
	r, ok := history.RecordOf(key, raw.HGetAll(t.Context(), key).Val())
	if !ok {
		t.Fatal("there is no record")
	}
	return r
}

// tries makes a payment, and says what came of it.
func (f *fixture) tries(t *testing.T, ctx context.Context, key string) error {
	t.Helper()
	a := f.MerchantAccount(t)
	ch, ans := f.Draft(t, a, eur(1000), "shop.example", tollgate.CaptureManual)
	_, err := f.CreatePayment(ctx, f.Caller, f.Key(key), a, ch, ans)
	return err
}

// A Redis that does not have what it acknowledged takes no more changes until that is
// accepted, whichever process asks; what names the history of before is told.
func TestWentBack(t *testing.T) {
	server := redistest.Fresh(t)
	lost := 0
	f := newFixtureAt(t, server.URL).with(t, rediskv.Options{URL: server.URL, Lost: func() { lost++ }})
	other := f.with(t, rediskv.Options{URL: server.URL})
	org, ctx := f.Caller.Organization, t.Context()
	first, err := f.HistoryFor(ctx, org)
	must(t, err)
	if !first.Open || first.Loss != nil || first.ID != first.First {
		t.Fatalf("at first %+v", first)
	}
	before := f.Pay(t, eur(1000), tollgate.CaptureManual)
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	f.goBack(t, server)

	if err := f.tries(t, ctx, "a"); code(err) != string(tollgate.CodeHistoryLost) {
		t.Fatalf("a payment after the loss: %v", err)
	}
	if err := other.tries(t, ctx, "b"); code(err) != string(tollgate.CodeHistoryLost) {
		t.Errorf("another process, which has not lost anything that it knows of: %v", err)
	}
	if _, _, err := f.Payment(ctx, f.Caller, before.ID); err != nil {
		t.Errorf("what is there is read: %v", err)
	}
	raw := rawClient(t, server.URL)
	found := f.historyRecord(t, raw)
	if lost != 1 || found.Open || found.ID != first.ID || found.Loss == nil || found.Loss.Organization != org || found.Loss.Acknowledged != found.Loss.Found+1 {
		t.Errorf("found %d times: %+v %+v", lost, found, found.Loss)
	}

	partition := f.Space(org).Partition
	next, err := f.Histories.Accept(ctx, partition, false, 0)
	must(t, err)
	if !next.Open || next.ID == first.ID || next.First != first.ID || next.Loss != nil || next.MissingFrom(first.ID) != found.Loss.Since {
		t.Errorf("accepted: %+v", next)
	}
	if _, err := f.Histories.Accept(ctx, partition, false, 0); err == nil {
		t.Error("nothing was lost, and it is accepted")
	}
	f.Clock.Advance(2 * rediskv.OperationTimeout)
	until(t, "the other process knows", func() bool { return other.tries(t, ctx, "c") == nil })
	err = other.tries(t, history.Within(ctx, first.ID), "d")
	if e := codeOf(err); e == nil || e.Code != tollgate.CodeHistoryChanged || e.Context.Since != found.Loss.Since {
		t.Errorf("within the history of before: %v", err)
	}
	must(t, f.tries(t, history.Within(ctx, next.ID), "e"))
	docs, _, _, err := f.Events(ctx, f.Caller, eventlog.EventQuery{Limit: 100})
	must(t, err)
	oldest, newest := parsed[tollgate.Event](t, docs[0], nil), parsed[tollgate.Event](t, docs[len(docs)-1], nil)
	if *oldest.HistoryID != first.ID || *newest.HistoryID != next.ID {
		t.Errorf("events of the histories %s and %s", *oldest.HistoryID, *newest.HistoryID)
	}
}

func codeOf(err error) *tollgate.Error {
	e, _ := err.(*tollgate.Error)
	return e
}

// With GoOn a history begins at once, and payouts wait.
func TestGoesOn(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL).with(t, rediskv.Options{URL: server.URL, GoOn: true})
	org, ctx := f.Caller.Organization, t.Context()
	first, err := f.HistoryFor(ctx, org)
	must(t, err)
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	f.goBack(t, server)
	until(t, "a payment is made", func() bool { return f.tries(t, ctx, "a") == nil })
	r := f.historyRecord(t, rawClient(t, server.URL))
	if !r.Open || r.ID == first.ID || r.Loss == nil || len(r.Past) != 1 {
		t.Errorf("%+v", r)
	}
	if err := f.tries(t, history.Within(ctx, first.ID), "b"); code(err) != string(tollgate.CodeHistoryChanged) {
		t.Errorf("within the history of before: %v", err)
	}
	if r, err = f.Histories.Accept(ctx, f.Space(org).Partition, false, 0); err != nil || r.Loss != nil || !r.Open || len(r.Past) != 1 {
		t.Errorf("accepted: %+v, %v", r, err)
	}
}

// A Redis that was emptied is not taken for a new one by who knew it, and nobody is
// told that it does not exist.
func TestEmptied(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	ctx := t.Context()
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	a := f.MerchantAccount(t)
	ch, ans := f.Draft(t, a, eur(1000), "shop.example", tollgate.CaptureManual)
	must(t, server.Empty())
	if _, err := f.CreatePayment(ctx, f.Caller, f.Key("a"), a, ch, ans); code(err) != string(tollgate.CodeHistoryLost) {
		t.Errorf("a payment: %v", err)
	}
	if is, err := f.Emptied(ctx); !is || err != nil {
		t.Error("it does not say that it is empty")
	}
	if err := f.SuspectHistory(ctx, f.Caller.Organization, "", "", 0, 0); code(err) != string(tollgate.CodeHistoryLost) {
		t.Errorf("who misses a grant is told %v", err)
	}
	if r := f.historyRecord(t, rawClient(t, server.URL)); r.Open || r.Loss == nil || r.Loss.Reason != history.Empty {
		t.Errorf("%+v %+v", r, r.Loss)
	}
}

// Where writes go on, a token whose grant is gone with everything else is of a history
// that has ended, and not of nobody.
func TestEmptiedGoesOn(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	ctx, org := t.Context(), f.Caller.Organization
	s := f.with(t, rediskv.Options{URL: server.URL, GoOn: true})
	known := s.Histories.Of(s.Space(org).Partition).ID
	must(t, server.Empty())
	for range 2 { // it is found, and then known
		if err := s.SuspectHistory(ctx, org, known, history.Token, 1, 0); code(err) != string(tollgate.CodeHistoryChanged) {
			t.Errorf("who misses its grant is told %v", err)
		}
	}
}

// A Redis that was emptied, and in which another process has begun anew meanwhile, has
// lost what the others know all the same; and that process learns it.
func TestBegunAnew(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	ctx, p := t.Context(), f.Space(f.Caller.Organization).Partition
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	known := f.Histories.Of(p).ID
	must(t, server.Empty())
	newcomer := f.with(t, rediskv.Options{URL: server.URL})
	began := newcomer.Histories.Of(p).ID
	if began == known || began == "" {
		t.Fatalf("it goes on with %q", began)
	}
	for range 2 { // they agree
		for _, one := range []*fixture{f, newcomer} {
			r, err := one.RereadHistory(ctx, f.Caller.Organization)
			if err != nil || r.Open || r.ID != known || r.Loss == nil || r.Loss.Reason != history.Empty || len(r.Past) != 1 || r.Past[0].ID != began {
				t.Errorf("%+v %v", r, err)
			}
		}
	}
	if is, err := f.Emptied(ctx); !is || err != nil {
		t.Error("it does not say that what it had is gone")
	}
	if r, err := newcomer.Histories.Accept(ctx, p, false, 0); err != nil || !r.Open || r.MissingFrom(known) != 0 || r.MissingFrom(began) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := f.RereadHistory(ctx, f.Caller.Organization); err != nil || !r.Open || r.ID == known {
		t.Errorf("%+v %v", r, err)
	}
}

// A copy that was made before a loss was found does not say so. Whoever found it does: it
// is still to be accepted, and no payout is made before.
func TestCopyPutBack(t *testing.T) {
	for name, looks := range map[string]func(*testing.T, *fixture, *redistest.Server){
		"by a new connection": func(t *testing.T, f *fixture, server *redistest.Server) {
			server.Kill()
			server.Restart()
			_ = f.tries(t, t.Context(), "b")
		},
		"by reading the record": func(t *testing.T, f *fixture, _ *redistest.Server) {
			_, err := f.RereadHistory(t.Context(), f.Caller.Organization)
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Fresh(t)
			f := newFixtureAt(t, server.URL)
			ctx, org, raw := t.Context(), f.Caller.Organization, rawClient(t, server.URL)
			key := rediskv.HistoryKey(f.Space(org).Partition)
			copied := raw.HGetAll(ctx, key).Val()
			known := f.historyRecord(t, raw)
			if err := f.SuspectHistory(ctx, org, known.ID, history.Token, 2, 1); code(err) != string(tollgate.CodeHistoryLost) {
				t.Fatal(err)
			}
			must(t, raw.Del(ctx, key).Err())
			must(t, raw.HSet(ctx, key, copied).Err())
			looks(t, f, server)
			if r := f.historyRecord(t, raw); r.Open || r.ID != known.ID || r.Loss == nil || r.Loss.Reason != history.Behind {
				t.Errorf("%+v %+v", r, r.Loss)
			}
		})
	}
}

// A server that was a replica meanwhile is compared although the connections to it are the
// same: with the next heartbeat.
func TestLossOnAnOldConnection(t *testing.T) {
	server, _ := redistest.Replicated(t)
	lost := 0
	f := newFixtureAt(t, server.URL).with(t, rediskv.Options{URL: server.URL, Lost: func() { lost++ }})
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	if f.LookForLoss(t.Context()); lost != 0 {
		t.Fatalf("told %d times of nothing", lost)
	}
	server.Unfollow()
	must(t, server.Command("REPLICAOF", "NO", "ONE"))
	f.shorten(t)
	if f.LookForLoss(t.Context()); lost != 1 {
		t.Errorf("told %d times", lost)
	}
	if err := f.tries(t, t.Context(), "after it"); code(err) != string(tollgate.CodeHistoryLost) {
		t.Error(err)
	}
}

// A connection to a replica of a cluster would stay when it becomes the master, and nothing
// was compared on it: it is not used.
func TestNoConnectionToAReplica(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("of a cluster")
	}
	f := newFixtureAt(t, redistest.ReplicatedCluster(t).URL)
	var asked, refused atomic.Int64
	connect := func(ctx context.Context, replica *redis.Client) error {
		asked.Add(1)
		for range 3 { // one may be of the start, when there was nothing to compare with yet
			c := replica.Conn()
			defer c.Close()
			if err := c.Ping(ctx).Err(); err != nil && strings.Contains(err.Error(), "replica of a cluster") {
				refused.Add(1)
				return nil
			}
		}
		return nil
	}
	testkit.Eventually(t, "the replicas are known", func() bool {
		must(t, f.Redis.(*redis.ClusterClient).ForEachSlave(t.Context(), connect))
		return asked.Load() > 0
	})
	if asked.Load() != refused.Load() {
		t.Errorf("%d replicas are asked, %d connections are refused", asked.Load(), refused.Load())
	}
	f.Pay(t, eur(1000), tollgate.CaptureManual)
}

// An acceptance that Redis has lost is a loss as well: payouts would wait for another one of
// which nobody is told.
func TestAcceptanceLost(t *testing.T) {
	server := redistest.Fresh(t)
	f, told := newFixtureAt(t, server.URL), 0
	f = f.with(t, rediskv.Options{URL: server.URL, GoOn: true, Lost: func() { told++ }})
	ctx, org, raw := t.Context(), f.Caller.Organization, rawClient(t, server.URL)
	p := f.Space(org).Partition
	known := f.historyRecord(t, raw)
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	last := raw.XRevRangeN(ctx, f.Space(org).Events(), "+", "-", 1).Val()[0].ID
	err := f.SuspectHistory(ctx, org, known.ID, history.Token, 2, 1)
	if e, ok := errors.AsType[*tollgate.Error](err); !ok || e.Code != tollgate.CodeHistoryChanged || told != 1 || !strings.HasPrefix(last, rediskv.Milli(e.Context.Since)+"-") {
		t.Fatalf("%v, told %d times; the last event there is %s", err, told, last)
	}
	undecided := raw.HGetAll(ctx, rediskv.HistoryKey(p)).Val()
	accepted, err := f.Histories.Accept(ctx, p, false, 0)
	must(t, err)
	must(t, raw.Del(ctx, rediskv.HistoryKey(p)).Err())
	must(t, raw.HSet(ctx, rediskv.HistoryKey(p), undecided).Err())
	if r, err := f.RereadHistory(ctx, org); err != nil || told != 2 || r.Loss == nil || r.ID == accepted.ID || len(r.Past) != 2 {
		t.Errorf("told %d times: %+v %v", told, r, err)
	}
}

// A loss is told of although the answer to what writes it down was lost.
func TestLossToldLate(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	ctx, org, told := t.Context(), f.Caller.Organization, 0
	s := f.with(t, rediskv.Options{URL: server.URL, Lost: func() { told++ }})
	id := s.Histories.Of(s.Space(org).Partition).ID
	s.Redis.AddHook(&losing{after: "evalsha"})
	if err := s.SuspectHistory(ctx, org, id, history.Token, 2, 1); code(err) != string(tollgate.CodeStoreUnavailable) || told != 0 {
		t.Fatalf("%v, told %d times", err, told)
	}
	for range 2 {
		if err := s.SuspectHistory(ctx, org, id, history.Token, 2, 1); code(err) != string(tollgate.CodeHistoryLost) || told != 1 {
			t.Errorf("%v, told %d times", err, told)
		}
	}
}

// What was found and could not be written is written with the next connection, although
// Redis has by then as many events again.
func TestLossWrittenLate(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	ctx, org, told := t.Context(), f.Caller.Organization, 0
	s := f.with(t, rediskv.Options{URL: server.URL, Lost: func() { told++ }})
	id := s.Histories.Of(s.Partition(org)).ID
	s.Redis.AddHook(&losing{before: "evalsha"})
	if err := s.SuspectHistory(ctx, org, id, history.Token, 2, 1); code(err) != string(tollgate.CodeStoreUnavailable) || told != 0 {
		t.Fatalf("%v, told %d times", err, told)
	}
	server.Kill()
	server.Restart()
	testkit.Eventually(t, "it is told", func() bool {
		_, _ = s.RereadHistory(ctx, org)
		return told == 1
	})
	if r := f.historyRecord(t, rawClient(t, server.URL)); r.Loss == nil || r.Loss.Reason != history.Token || r.Open {
		t.Errorf("%+v", r)
	}
}

// losing loses one command, or the answer to one.
type losing struct{ before, after string }

func (*losing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == l.before {
			l.before = ""
			command.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		err := next(ctx, command)
		if err == nil && command.Name() == l.after {
			l.after = ""
			err = io.ErrUnexpectedEOF
			command.SetErr(err)
		}
		return err
	}
}

func (*losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// An answer that is older than what is known by the time it comes is no loss.
func TestComparedLate(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	ctx, p := t.Context(), f.Space(f.Caller.Organization).Partition
	slow := rawClient(t, server.URL)
	slow.AddHook(afterwards(func() {
		r := *f.Histories.Of(p)
		r.Starts++ // this process is counted meanwhile
		f.Histories.Adopt(p, r)
	}))
	if found, err := f.Histories.Compare(ctx, slow, f, false, f.Now()); err != nil || len(found) > 0 {
		t.Errorf("%+v %v", found, err)
	}
}

// Who does not answer is not compared, and its connection is not used: what it has would
// be written to later. In a cluster each node answers of its own slots.
func TestNotCompared(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct {
		reply   string
		cluster bool
		skipped bool
	}{
		{"MOVED 3999 other:6379", false, false},
		{"MOVED 3999 other:6379", true, true},
		{"ASK 3999 other:6379", true, true},
		{"CLUSTERDOWN Hash slot not served", true, true},
		{"CLUSTERDOWN The cluster is down", true, false},
		{"LOADING Redis is loading the dataset in memory", true, false},
	} {
		client := rawClient(t, f.URL)
		client.AddHook(answering(test.reply))
		if found, err := f.Histories.Compare(t.Context(), client, f, test.cluster, f.Now()); (err == nil) != test.skipped || len(found) > 0 {
			t.Errorf("%+v: %+v %v", test, found, err)
		}
	}
}

// answering has a server answer each command of a pipeline with an error.
type answering string

func (a answering) Error() string { return string(a) }
func (answering) RedisError()     {}

func (answering) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (answering) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (a answering) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			command.SetErr(a)
		}
		return a
	}
}

// afterwards does something once a pipeline is answered.
type afterwards func()

func (afterwards) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (afterwards) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (do afterwards) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		defer do()
		return next(ctx, commands)
	}
}

// A record that cannot be read is a loss as well: what it names is not known.
func TestDamagedHistory(t *testing.T) {
	for _, damage := range []func(*testing.T, redis.UniversalClient, string){
		func(t *testing.T, c redis.UniversalClient, key string) {
			must(t, c.HSet(t.Context(), key, "id", "his!").Err())
		},
		func(t *testing.T, c redis.UniversalClient, key string) {
			must(t, c.HSet(t.Context(), key, "e", "7", "open", "").Err())
		},
		func(t *testing.T, c redis.UniversalClient, key string) {
			must(t, c.Set(t.Context(), key, "x", 0).Err())
		},
	} {
		f := newFixture(t)
		raw := rawClient(t, f.URL)
		damage(t, raw, rediskv.HistoryKey(f.Space(f.Caller.Organization).Partition))
		raw.HDel(t.Context(), rediskv.HistoryKey(f.Space(f.Caller.Organization).Partition), "open")
		err := f.tries(t, t.Context(), "a")
		if r := f.historyRecord(t, raw); code(err) != string(tollgate.CodeHistoryLost) || r.Loss == nil || r.Loss.Reason != history.Unreadable {
			t.Errorf("%v, %+v", err, r)
		}
	}
}

// What a token or a cursor names of this history and is not there is evidence; of
// another history it is none.
func TestEvidence(t *testing.T) {
	f := newFixture(t)
	ctx, org := t.Context(), f.Caller.Organization
	r, err := f.HistoryFor(ctx, org)
	must(t, err)
	must(t, f.SuspectHistory(ctx, org, "his_other", history.Token, 2, 1))
	must(t, f.SuspectHistory(ctx, org, r.ID, "", 0, 0))
	must(t, f.tries(t, ctx, "a"))
	if err := f.SuspectHistory(ctx, org, r.ID, history.Token, 2, 1); code(err) != string(tollgate.CodeHistoryLost) {
		t.Errorf("%v", err)
	}
	if err := f.tries(t, ctx, "b"); code(err) != string(tollgate.CodeHistoryLost) {
		t.Errorf("%v", err)
	}
	// By hand, a history begins although nobody has found anything.
	g := newFixture(t)
	was, err := g.HistoryFor(ctx, g.Caller.Organization)
	must(t, err)
	now, err := g.Histories.Accept(ctx, g.Space(g.Caller.Organization).Partition, true, g.Now())
	if err != nil || now.ID == was.ID || now.MissingFrom(was.ID) != g.Now() {
		t.Errorf("%+v, %v", now, err)
	}
	testkit.Eventually(t, "it is written within it", func() bool { return g.tries(t, ctx, "a") == nil })
}

// What was handed over in the history before may be gone with it: deliveries are made of
// what is left, when it has been read again.
func TestHandedOverBefore(t *testing.T) {
	t.Parallel() // it waits most of its time
	f := newFixture(t)
	ctx, p := t.Context(), f.Space(f.Caller.Organization).Partition
	endpoint := f.endpoint(t)
	f.fanOut(t, "a")
	must(t, f.tries(t, ctx, "a"))
	handed, err := f.ReadAny(ctx, []int{p}, "a", time.Millisecond)
	if err != nil || len(handed) != 1 {
		t.Fatal(handed, err)
	}
	_, err = f.Histories.Accept(ctx, p, true, f.Now())
	must(t, err)
	if got, err := f.FanOutHanded(ctx, handed[0], nil); got.Events != 0 || code(err) != string(tollgate.CodeHistoryChanged) {
		t.Errorf("%d events, %v", got.Events, err)
	}
	if made := rawClient(t, f.URL).ZCard(ctx, f.Space(f.Caller.Organization).Deliveries(endpoint.ID)).Val(); made != 0 {
		t.Errorf("%d deliveries were made within the new history", made)
	}
	testkit.Eventually(t, "it is read again", func() bool { return f.fanOut(t, "a") == 1 })
}

var historyResends = []resend{
	{"begin_history", "a process starts", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		another := func(through *fixture) error {
			one := new(history.Watch)
			return one.Begin(t.Context(), through, through.Redis, []string{rediskv.HistoryKey(0)}, "", nil)
		}
		return another, func() { must(t, another(f)) }
	}},
	{"decide_history", "a loss is accepted", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		ctx, p := t.Context(), f.Space(f.Caller.Organization).Partition
		lose := func() {
			r, err := f.RereadHistory(ctx, f.Caller.Organization)
			must(t, err)
			if err := f.SuspectHistory(ctx, f.Caller.Organization, r.ID, history.Token, 2, 1); code(err) != string(tollgate.CodeHistoryLost) {
				t.Fatal(err)
			}
		}
		lose()
		return func(through *fixture) error {
			_, err := through.Histories.Accept(ctx, p, false, 0)
			return err
		}, lose
	}},
}
