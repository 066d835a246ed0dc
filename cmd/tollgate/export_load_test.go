package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// exportRowsVariable says how many transactions TestExportUnderLoad exports:
// for the figures of the README 1000000.
const exportRowsVariable = "TOLLGATE_TEST_EXPORT_ROWS"

// copyTransactions makes more transactions of one that is there, in the
// store's own format. KEYS: 1 all transactions; ARGV: 1 first, 2 last sequence.
const copyTransactions = `
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('another partition') end
local prefix = string.sub(KEYS[1], 1, -6)
local hash = redis.call('HGETALL', prefix .. ':txn_' .. redis.call('ZRANGE', KEYS[1], '0', '0')[1])
local f = {}
for i = 1, #hash, 2 do f[hash[i]] = hash[i + 1] end
for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local id, at = string.format('01kz%022d', n), string.format('%.0f', n * 16)
  redis.call('HSET', prefix .. ':txn_' .. id, unpack(hash))
  redis.call('HSET', prefix .. ':txn_' .. id, 'pos', at, 'ref', 'order-' .. at, 'e', '1')
  for _, index in ipairs({'', ':' .. f.ma, ':' .. f.st}) do redis.call('ZADD', KEYS[1] .. index, at, id) end
end
redis.call('HSET', prefix .. ':seq', 'event', ARGV[2])
return 1`

// An export of many transactions by a worker of its own, while clients make
// payments: the worker's memory over idle, rows a second, and the clients' p99
// with and without. It asserts memory and that the file is whole; times only
// mean something on a quiet machine and are printed.
func TestExportUnderLoad(t *testing.T) {
	if redistest.Kind(t) != redistest.Real {
		t.Skip("needs one real server")
	}
	rows := 20_000
	if text := os.Getenv(exportRowsVariable); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	redis := redistest.Fresh(t)
	s := newSite(t, redis.URL)
	base := s.serve().serving()
	s.authenticate(base)
	pay := func(key string) (time.Duration, error) {
		start := time.Now()
		r, err := s.send("POST", base+"/v1/payments", key, `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`)
		if err == nil && r.StatusCode != 201 {
			err = fmt.Errorf("%d %s", r.StatusCode, r.Text)
		}
		return time.Since(start), err
	}
	if _, err := pay("template"); err != nil {
		t.Fatal(err)
	}
	index := ""
	for p := range 64 {
		key := fmt.Sprintf("{p%02d}:%s:txns", p, s.organization)
		if redis.Command("EVAL", copyTransactions, 1, key, 1000, 1000) == nil {
			index = key
		}
	}
	for first := 1001; first < 1000+rows-1; first += 10_000 {
		if err := redis.Command("EVAL", copyTransactions, 1, index, first, min(first+10_000, 1000+rows-1)-1); err != nil {
			t.Fatal(err)
		}
	}
	// A payment every 10 ms, as long as something goes on.
	latencies := func(name string, goesOn func(time.Duration) bool) []time.Duration {
		var took []time.Duration
		start := time.Now()
		for i := 0; goesOn(time.Since(start)); i++ {
			d, err := pay(fmt.Sprintf("%s-%d", name, i))
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, d)
			time.Sleep(max(0, time.Duration(i+1)*10*time.Millisecond-time.Since(start)))
		}
		slices.Sort(took)
		return took
	}
	work := launch(t, s.env, "work")
	testkit.Eventually(t, "the worker works", func() bool { return work.says("working") })
	window := min(10*time.Second, time.Duration(rows)*20*time.Microsecond)
	without := latencies("without", func(since time.Duration) bool { return since < window })
	idle := resident(t, work, "VmRSS")
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", work.cmd.Process.Pid), []byte("5"), 0o600); err != nil { // VmHWM begins anew
		t.Fatal(err)
	}

	var e tollgate.Export
	read := func() {
		s.must(200, "GET", base+"/v1/exports/"+e.ID, "", "").into(t, &e)
	}
	s.must(202, "POST", base+"/v1/exports/preview", "", `{"dataset":"transactions"}`).into(t, &e)
	begun := time.Now()
	checked := begun
	with := latencies("with", func(since time.Duration) bool {
		if time.Since(checked) > 200*time.Millisecond {
			checked = time.Now()
			read()
		}
		return !e.Status.Ended() && since < 5*time.Minute
	})
	read()
	if e.Result == nil || e.Result.Rows < int64(rows) {
		t.Fatalf("%+v", e)
	}
	peak := resident(t, work, "VmHWM")
	var times struct {
		Started  time.Time `json:"started_at"`
		Finished time.Time `json:"finished_at"`
	}
	s.must(200, "GET", base+"/v1/exports/"+e.ID, "", "").into(t, &times)
	took := times.Finished.Sub(times.Started)

	file := filepath.Join(t.TempDir(), "rows.csv")
	fetched := time.Now()
	runProgram(t, []string{"TOLLGATE_URL=" + base, "TOLLGATE_TOKEN=" + s.token}, "export", "--id", e.ID, "-o", file)
	download := time.Since(fetched)
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("\r\n")) != int(e.Result.Rows)+1 {
		t.Fatalf("%v: %d lines", err, bytes.Count(text, []byte("\r\n")))
	}
	p99 := func(took []time.Duration) time.Duration { return took[len(took)*99/100] }
	t.Logf("\nrows                %d, %.1f MB of CSV\nexport              %.1f s, %.0f rows/s\ndownload, verified  %.1f s\n"+
		"worker, idle        %.1f MiB\nworker, peak        %.1f MiB, %.1f over idle\npayments, without   p50 %s, p99 %s (%d)\npayments, with      p50 %s, p99 %s (%d), %.1f times",
		e.Result.Rows, float64(len(text))/1e6, took.Seconds(), float64(e.Result.Rows)/took.Seconds(), download.Seconds(),
		idle, peak, peak-idle, without[len(without)/2], p99(without), len(without), with[len(with)/2], p99(with), len(with),
		float64(p99(with))/float64(p99(without)))
	if peak-idle > 64 {
		t.Errorf("the worker took %.1f MiB more than idle", peak-idle)
	}
}

// resident is a figure of the kernel's about a process, in MiB.
func resident(t *testing.T, p *process, name string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return float64(kib) / 1024
		}
	}
	t.Fatalf("no %s", name)
	return 0
}
