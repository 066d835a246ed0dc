package gcra

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// tokens is the other description of the same limit, a bucket into which something
// drips: one more microsecond with each, up to a full one, and a request takes an
// interval of them out.
type tokens struct{ level, at int64 }

func (b *tokens) take(l Limit, now int64) State {
	step, full := l.Period.Microseconds()/l.Rate, l.Burst*(l.Period.Microseconds()/l.Rate)
	b.level = min(full, b.level+max(0, now-b.at))
	b.at = now
	if b.level < step {
		return State{Reset: micros(full - b.level), Retry: micros(step - b.level)}
	}
	b.level -= step
	return State{Remaining: b.level / step, Reset: micros(full - b.level)}
}

// TestAgainstTokens: whatever the limit and the times, both admit the same requests and
// say the same of them.
func TestAgainstTokens(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		l := Limit{Rate: 1 + random.Int64N(500), Period: periods[random.IntN(len(periods))].of, Burst: 1 + random.Int64N(40)}
		now := time.UnixMicro(1_790_000_000_000_000 + random.Int64N(1e9))
		limiter, bucket := NewLimiter(3), tokens{l.span(), now.UnixMicro()}
		for n := range 400 {
			now = now.Add(time.Duration(random.Int64N(3*l.interval())) * time.Microsecond)
			if random.IntN(50) == 0 {
				now = now.Add(l.Window())
			}
			looked := limiter.Look("a", l, now)
			got, want := limiter.Take("a", l, now), bucket.take(l, now.UnixMicro())
			if got != want || looked != got {
				t.Fatalf("seed %d, request %d, %s: %+v, looked at as %+v, want %+v", seed, n, l, got, looked, want)
			}
		}
	}
}

// A clock that is set back, and a burst that becomes smaller, keep nobody out for longer
// than the bucket takes to fill up.
func TestNobodyIsKeptOut(t *testing.T) {
	t.Parallel()
	l := Limit{Rate: 10, Period: time.Second, Burst: 20}
	limiter, now := NewLimiter(1), time.UnixMicro(1_790_000_000_000_000)
	for !limiter.Take("a", l, now).Refused() {
	}
	for _, back := range []time.Duration{time.Second, time.Hour, 1000 * time.Hour} {
		if s := limiter.Look("a", l, now.Add(-back)); s.Retry > 100*time.Millisecond || s.Reset > l.Window() {
			t.Errorf("%s back: %+v", back, s)
		}
	}
	small := Limit{Rate: 10, Period: time.Second, Burst: 1}
	if s := limiter.Look("a", small, now); s.Retry > 100*time.Millisecond {
		t.Errorf("with a smaller burst: %+v", s)
	}
}

// A bucket that was emptied elsewhere refuses until its time has come.
func TestEmpty(t *testing.T) {
	t.Parallel()
	l, now := Limit{Rate: 10, Period: time.Second, Burst: 20}, time.UnixMicro(1_790_000_000_000_000)
	limiter := NewLimiter(2)
	limiter.Empty("a", l, now, 70*time.Millisecond)
	if s := limiter.Look("a", l, now); s.Retry != 70*time.Millisecond {
		t.Errorf("%+v", s)
	}
	if s := limiter.Look("a", l, now.Add(70*time.Millisecond)); s.Refused() {
		t.Errorf("after its time: %+v", s)
	}
	if s := limiter.Look("b", l, now); s.Refused() {
		t.Errorf("another bucket: %+v", s)
	}
}

// Of more buckets than there is room for, the one that was used longest ago is full
// again; goroutines count one by one.
func TestLimiter(t *testing.T) {
	t.Parallel()
	l, now := Limit{Rate: 1, Period: time.Hour, Burst: 100}, time.UnixMicro(1_790_000_000_000_000)
	limiter := NewLimiter(2)
	var asking sync.WaitGroup
	for range 60 {
		asking.Go(func() { limiter.Take("a", l, now) })
	}
	asking.Wait()
	if s := limiter.Take("a", l, now); s.Remaining != 39 {
		t.Errorf("%+v", s)
	}
	limiter.Take("b", l, now)
	limiter.Take("a", l, now)
	limiter.Take("c", l, now) // in the place of b
	if a, b := limiter.Look("a", l, now), limiter.Look("b", l, now); a.Remaining != 37 || b.Remaining != 99 {
		t.Errorf("a %+v, b %+v", a, b)
	}
}

// TestParse: what is printed is read again, and a limit that is none is refused.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "tokens=60/m,writes=100/s,reads=200/s,quotes=200/s", "writes=1/h", "writes=100/s,burst=7,reads=off", "tokens=1000000/s",
	} {
		l, err := Parse(text)
		if err != nil || l.String() != text {
			t.Errorf("%q: %q, %v", text, l, err)
		}
	}
	for text, want := range map[string]string{
		"off": "tokens=off,writes=off,reads=off,quotes=off", " reads=2/s , writes=1/m": "writes=1/m,reads=2/s", "writes=5/s,burst=10": "writes=5/s",
	} {
		if l, err := Parse(text); err != nil || l.String() != want {
			t.Errorf("%q: %q, %v", text, l, err)
		}
	}
	for _, text := range []string{
		",", "writes", "writes=", "writes=0/s", "writes=-1/s", "writes=01/s", "writes=1", "writes=1/d", "writes=1/s/s", "writes=1000001/s", "writes=1.5/s",
		"pages=1/s", "refused=1/s", "burst=2", "writes=1/s,burst=0", "writes=1/s,burst=100001", "writes=off,burst=2", "writes=1/s,burst=2,burst=3",
		"writes=1/s,writes=2/s", "writes=1/s;reads=1/s", "off,writes=1/s", "writes=1/s,",
	} {
		if l, err := Parse(text); err == nil {
			t.Errorf("%q is %q", text, l)
		}
	}
}

// FuzzParse: what is read is printed so that it is read as the same, and its numbers
// stay where Lua counts exactly.
func FuzzParse(f *testing.F) {
	f.Add("tokens=60/m,writes=100/s,burst=300,reads=off")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(l.String())
		if err != nil || again.String() != l.String() {
			t.Errorf("%q is printed as %q, and that as %q, %v", text, l, again, err)
		}
		for _, limit := range l {
			if !limit.None() && (limit.interval() < 1 || limit.span() > 1<<50 || limit.Burst < 1) {
				t.Errorf("%q: %+v", text, limit)
			}
		}
	})
}

func TestOver(t *testing.T) {
	t.Parallel()
	parse := func(text string) Limits {
		l, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	usual := parse("tokens=60/m,writes=100/s,reads=200/s")
	if got := parse("writes=off,reads=1/s").Over(usual).String(); got != "tokens=60/m,writes=off,reads=1/s" {
		t.Error(got)
	}
	if got := usual.String(); !strings.Contains(got, "writes=100/s") {
		t.Error(got)
	}
}

// TestCount: one script is told to count, and after its answer none, not even by the
// argument that it was told with.
func TestCount(t *testing.T) {
	t.Parallel()
	var none *Count
	if none.Ask().Counts() || !none.Asked() {
		t.Error("nothing is counted")
	}
	c := &Count{Kind: Reads, Of: "cli_1", Limit: Limit{Rate: 100, Period: time.Second, Burst: 200}}
	if c.Asked() {
		t.Error("nobody has asked")
	}
	first, second := c.Ask(), c.Ask()
	text := func(a Argument) string {
		b, err := a.MarshalBinary()
		return fmt.Sprint(string(b), err)
	}
	if text(first) != "10000 200<nil>" || text(second) != "<nil>" || !c.Asked() {
		t.Errorf("%q, %q", text(first), text(second))
	}
	for _, other := range []string{"", "1", "1 2 x", "1 2"} {
		first.Answered(other)
		if s, ok := c.State(); ok {
			t.Errorf("%q is %+v", other, s)
		}
	}
	first.Answered("0 2000000 10000")
	if s, ok := c.State(); !ok || s != (State{0, 2 * time.Second, 10 * time.Millisecond}) || !s.Refused() {
		t.Errorf("%+v, %v", s, ok)
	}
	if text(first) != "<nil>" {
		t.Errorf("after the answer: %q", text(first))
	}
}
