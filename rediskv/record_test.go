package rediskv_test

import (
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/webhooks"
)

func (f *fixture) ended(w webhooks.Work, o webhooks.Outcome) webhooks.Ended {
	a := tollgate.Attempt{
		Object: "attempt", ID: w.AttemptID, CreatedAt: w.StartedAt, DeliveryID: w.DeliveryID, Number: w.Number, Trigger: w.Trigger,
		Status: tollgate.AttemptSucceeded, StartedAt: w.StartedAt, URL: w.Endpoint.URL, NextAttemptAt: o.Next,
	}
	if o.StatusCode != 0 {
		a.Response = &tollgate.AttemptResponse{StatusCode: o.StatusCode}
	}
	if o.State != tollgate.DeliverySucceeded {
		a.Status = tollgate.AttemptFailed
		if o.Reason = cmp.Or(o.Reason, "http_"+strconv.Itoa(o.StatusCode)); o.Reason != "http_"+strconv.Itoa(o.StatusCode) {
			a.Error = &tollgate.AttemptError{Code: o.Reason}
		}
	}
	if w.ReplayID != "" {
		a.ReplayID = &w.ReplayID
	}
	return webhooks.Ended{Work: w, Attempt: a, Outcome: o}
}

// Attempts that are recorded together are fenced each by itself, and count one
// after the other.
func TestAttemptsRecordedTogether(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	for range 6 {
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	f.fanOut(t, "a")
	work := f.take(t, 10)
	if len(work) != 6 {
		t.Fatalf("%d taken", len(work))
	}
	// The worker of the first dies, and another one has it.
	stale := work[0]
	for _, w := range work[1:] {
		f.record(t, w, succeeded)
	}
	f.Died(t, lease)
	again := f.take(t, 10)
	if len(again) != 1 || again[0].DeliveryID != stale.DeliveryID || again[0].Number != 2 || !again[0].Died {
		t.Fatalf("%+v", again)
	}
	second := again[0]
	failed := webhooks.Outcome{State: tollgate.DeliveryFailed, StatusCode: 404, Reason: "http_404"}
	together := []webhooks.Ended{f.ended(stale, succeeded), f.ended(second, failed)}
	for _, what := range []string{"first", "sent again after a lost reply"} {
		got, err := f.RecordAttempts(t.Context(), together)
		if err != nil || len(got) != 2 || !got[0].Late || got[1].Late || got[1].Failures != 1 {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
	if d := f.delivery(t, second); d.State != tollgate.DeliveryFailed || *d.LastStatusCode != 404 || d.AttemptCount != 2 {
		t.Errorf("%+v", d)
	}
	list := f.attempts(t, second)
	if len(list) != 2 || list[0].Status != tollgate.AttemptSucceeded || list[1].Status != tollgate.AttemptFailed {
		t.Errorf("%+v", list)
	}
	if got := f.webhook(t, second.Endpoint.ID); got.Failures != 1 {
		t.Errorf("%d given up", got.Failures)
	}
}

// Whatever is recorded together has the effect that it has one after the other.
func TestRecordedTogetherOrOneByOne(t *testing.T) {
	outcomes := func(now tollgate.Instant) []webhooks.Outcome {
		return []webhooks.Outcome{
			succeeded,
			{State: tollgate.DeliveryFailed, StatusCode: 404, Reason: "http_404"},
			{State: tollgate.DeliveryRetrying, Next: now.Add(time.Hour), StatusCode: 503, Reason: "http_503", Pause: now.Add(time.Minute)},
			succeeded,
			{State: tollgate.DeliveryRetrying, Next: now.Add(2 * time.Hour), StatusCode: 503, Reason: "http_503", Pause: now.Add(time.Second)},
			{State: tollgate.DeliverySucceeded, StatusCode: 204, Slow: true},
		}
	}
	state := func(together bool) string {
		f := newFixture(t)
		f.endpoint(t)
		for range 6 {
			f.Pay(t, eur(100), tollgate.CaptureManual)
		}
		f.fanOut(t, "a")
		work := f.take(t, 10)
		var all []webhooks.Ended
		for i, o := range outcomes(f.Now()) {
			all = append(all, f.ended(work[i], o))
		}
		var last webhooks.Recorded
		for len(all) > 0 {
			n := 1
			if together {
				n = len(all)
			}
			got, err := f.RecordAttempts(t.Context(), all[:n])
			if err != nil {
				t.Fatal(err)
			}
			last, all = got[n-1], all[n:]
		}
		if last.Late || last.Failures != 0 || last.LastSuccess != f.Now() {
			t.Errorf("together %t: %+v", together, last)
		}
		c, key := f.raw(t)
		prefix := strings.TrimSuffix(key, ":events")
		health, err := c.HMGet(t.Context(), prefix+":"+work[0].Endpoint.ID, "cap", "fail", "ok", "pause", "st").Result()
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, h := range health {
			v, _ := h.(string)
			text.WriteString(v + " ")
		}
		for i, w := range work {
			d := f.delivery(t, w)
			text.WriteString("\n" + string(d.State) + " " + d.NextAttemptAt.String() + " " + d.CompletedAt.String())
			ttl, err := c.PTTL(t.Context(), prefix+":"+w.DeliveryID).Result()
			if err != nil || (ttl > 0) != (d.State != tollgate.DeliveryRetrying) {
				t.Errorf("delivery %d expires in %s, %v", i, ttl, err)
			}
		}
		for _, zset := range []string{"queue", "leases", "open"} {
			n, err := c.ZCard(t.Context(), prefix+":"+work[0].Endpoint.ID+":"+zset).Result()
			if err != nil || n != map[string]int64{"queue": 2, "leases": 0, "open": 2}[zset] {
				t.Errorf("together %t: %d in %s, %v", together, n, zset, err)
			}
		}
		return text.String()
	}
	if a, b := state(false), state(true); a != b {
		t.Errorf("one by one:\n%s\ntogether:\n%s", a, b)
	}
}

// What goes to an endpoint that keeps up is not taken behind the backlog of
// others, and they have their turn all the same.
func TestBacklogsWait(t *testing.T) {
	f := newFixture(t)
	slow := f.endpoint(t, "payment.authorized")
	for range 20 {
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	f.fanOut(t, "a")
	fast := f.endpoint(t, "payment.authorized")
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	var turns []string
	for p := range f.Partitions() {
		if f.skip(t, p) {
			continue
		}
		for range 2 {
			some, _, err := f.TakeDue(t.Context(), p, upTo(64), lease)
			if err != nil {
				t.Fatal(err)
			}
			turn := ""
			for _, w := range some {
				turn += map[string]string{slow.ID: "s", fast.ID: "f"}[w.Endpoint.ID]
			}
			turns = append(turns, turn)
		}
	}
	if got := strings.Join(turns, ","); got != "f,ssssssss" {
		t.Errorf("taken in the order %s", got)
	}
}

// Events that stand far apart in the log, with others between them, come with
// their own bodies, and to an endpoint as it is now.
func TestBodiesAndEndpointsOfWork(t *testing.T) {
	f := newFixture(t)
	captured, all := f.endpoint(t, "payment.captured"), f.endpoint(t, "payment.captured")
	var want []string
	for range 2 {
		p := f.Pay(t, eur(100), tollgate.CaptureManual)
		if err := f.Capture(t.Context(), p.ID, 100, true); err != nil {
			t.Fatal(err)
		}
		want = append(want, p.ID)
		for range 5 {
			f.Pay(t, eur(100), tollgate.CaptureManual)
		}
	}
	f.fanOut(t, "a")
	read := func(urls map[string]string) {
		t.Helper()
		work := f.take(t, 100)
		if len(work) != 4 {
			t.Fatalf("%d taken", len(work))
		}
		for _, w := range work {
			if !strings.Contains(string(w.Body), w.EventID) || !strings.Contains(string(w.Body), want[0]) && !strings.Contains(string(w.Body), want[1]) {
				t.Errorf("the body of %s is %s", w.EventID, w.Body)
			}
			if w.Endpoint.URL != urls[w.Endpoint.ID] {
				t.Errorf("%s goes to %s", w.Endpoint.ID, w.Endpoint.URL)
			}
		}
		for _, w := range work {
			f.record(t, w, webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: f.Now().Add(time.Second), StatusCode: 500})
		}
	}
	urls := map[string]string{captured.ID: captured.URL, all.ID: all.URL}
	read(urls)
	for _, id := range []string{captured.ID, all.ID} { // an endpoint that failed gets one at once
		urls[id] = "https://moved.example/" + id
		if _, err := f.changeWebhook(t, *f.webhook(t, id), func(w *tollgate.WebhookEndpoint) { w.URL = urls[id] }); err != nil {
			t.Fatal(err)
		}
	}
	f.Clock.Advance(time.Second)
	work := f.take(t, 100)
	if len(work) != 2 {
		t.Fatalf("%d taken", len(work))
	}
	for _, w := range work {
		if w.Endpoint.URL != urls[w.Endpoint.ID] {
			t.Errorf("%s goes to %s after it was moved", w.Endpoint.ID, w.Endpoint.URL)
		}
	}
}

// What is handed over a second time changes nothing: a delivery stays as it is.
func TestHandedOverTwice(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	c, key := f.raw(t)
	dispatch := strings.Split(key, ":")[0] + ":dispatch"
	entries, err := c.XRange(t.Context(), dispatch, "-", "+").Result()
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	f.fanOut(t, "a")
	w := f.take(t, 10)[0]
	again := func(when string) {
		t.Helper()
		if err := c.Do(t.Context(), "XADD", dispatch, "*", "o", entries[0].Values["o"], "s", entries[0].Values["s"], "i", entries[0].Values["i"],
			"t", entries[0].Values["t"], "a", entries[0].Values["a"], "n", entries[0].Values["n"]).Err(); err != nil {
			t.Fatal(err)
		}
		if n := f.fanOut(t, "b"); n != 1 {
			t.Errorf("%d events were handed over", n)
		}
		if n := f.take(t, 10); len(n) != 0 {
			t.Errorf("%d deliveries of an event that was handed over again %s", len(n), when)
		}
	}
	again("while it is sent")
	f.record(t, w, succeeded)
	again("after it was delivered")
	if d := f.delivery(t, w); d.State != tollgate.DeliverySucceeded || d.AttemptCount != 1 {
		t.Errorf("%+v", d)
	}
}

// When Redis goes away between the lease and the reading of what to send,
// nothing is attempted, and nothing is taken for gone: the lease ends as soon as
// Redis is back.
func TestNoBodyIsNoWork(t *testing.T) {
	t.Parallel() // it waits most of its time
	server := redistest.Single(t)
	f := newFixtureAt(t, server.URL)
	f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	wire := redistest.Proxy(t, server.Addr)
	cut := openWith(t, rediskv.Options{
		URL: wire.URL, Clock: f.Clock.Now,
		Observe: func(operation string, _ time.Duration, err error) {
			if operation == "take_work" && err == nil {
				wire.Refuse()
			}
		},
	})
	for p := range cut.Partitions() {
		if f.skip(t, p) {
			continue
		}
		work, _, err := cut.TakeDue(t.Context(), p, upTo(10), lease)
		if err != nil || len(work) != 1 {
			t.Fatalf("%d to do, %v", len(work), err)
		}
		if err := cut.ReadBodies(t.Context(), work); code(err) != string(tollgate.CodeStoreUnavailable) {
			t.Error(err)
		}
		if early := f.take(t, 10); len(early) != 0 {
			t.Error("the lease does not hold")
		}
		cut.Unsent(p, work)
		if err := cut.EndUnsent(t.Context(), p); code(err) != string(tollgate.CodeStoreUnavailable) {
			t.Error(err)
		}
		wire.Accept()
		if err := cut.EndUnsent(t.Context(), p); err != nil {
			t.Error(err)
		}
	}
	again := f.take(t, 10)
	if len(again) != 1 || !again[0].Died || again[0].Run != 1 || len(again[0].Body) == 0 {
		t.Errorf("%+v", again)
	}
}

// What is leased is handed out, although another endpoint's delivery cannot be
// read.
func TestTakeBesideABrokenDelivery(t *testing.T) {
	f := newFixture(t)
	broken := f.endpoint(t)
	f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	list, _, _, err := f.Deliveries(t.Context(), f.Caller, broken.ID, webhooks.DeliveryQuery{Limit: 10})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	raw := rawClient(t, f.URL)
	for _, key := range scanKeys(t, raw, "*:"+list[0].ID) {
		if err := raw.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		if err := raw.Set(t.Context(), key, "no hash", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for p := range f.Partitions() {
		if f.skip(t, p) {
			continue
		}
		work, _, err := f.TakeDue(t.Context(), p, upTo(10), lease)
		if err == nil {
			t.Error("the broken delivery is not reported")
		}
		if len(work) != 1 || work[0].Endpoint.ID == broken.ID {
			t.Errorf("%d deliveries are handed out", len(work))
		}
	}
}
