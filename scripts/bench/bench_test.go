package main

import (
	"os"
	"testing"
)

const printed = `goos: linux
BenchmarkCreateCPU/first-2   	    3000	    182195 ns/op	       158.5 redis-µs/op	      32 B/op	       3 allocs/op
BenchmarkCreateCPU/http-2    	    3000	    364390 ns/op	       200.0 redis-µs/op	       100.5 service-µs/op	   37592 B/op	     298 allocs/op
PASS
`

func figures(t *testing.T, text string) measured {
	t.Helper()
	m := measured{}
	if err := m.read(text); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLine(t *testing.T) {
	m := figures(t, printed)
	first := figure{"CreateCPU/first", []string{"ns/op"}}
	for name, one := range map[string]struct {
		line
		want float64
	}{
		"as fast as":   {line{Value: figure{"CreateCPU/http", []string{"ns/op"}}, Of: &first, Speed: true}, 0.5},
		"as much as":   {line{Value: figure{"CreateCPU/http", []string{"ns/op"}}, Of: &first}, 2},
		"for itself":   {line{Value: figure{"CreateCPU/http", []string{"redis-µs/op", "service-µs/op"}}}, 300.5},
		"of the first": {line{Value: first}, 182195},
	} {
		if got, err := m.value(one.line); err != nil || got != one.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, l := range map[string]line{
		"another benchmark": {Value: figure{"CreateCPU", []string{"ns/op"}}},
		"another unit":      {Value: figure{"CreateCPU/first", []string{"service-µs/op"}}},
		"another yardstick": {Value: first, Of: &figure{"QuoteCPU/router", []string{"ns/op"}}},
	} {
		if got, err := m.value(l); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := (measured{}).read("BenchmarkX-2 10 many ns/op\n"); err == nil {
		t.Error("what is no number is read")
	}
}

// The median is that of the rounds' ratios, not the ratio of medians.
func TestRounds(t *testing.T) {
	l := line{Value: figure{"A", []string{"ns/op"}}, Of: &figure{"B", []string{"ns/op"}}}
	var rounds []measured
	for _, pair := range [][2]string{{"10", "1"}, {"30", "10"}, {"20", "10"}, {"40", "10"}} {
		rounds = append(rounds, figures(t, "BenchmarkA 1 "+pair[0]+" ns/op\nBenchmarkB 1 "+pair[1]+" ns/op\n"))
	}
	r, err := rowOf(l, rounds, rounds[:1])
	if want := (spread{3.5, 2, 10}); err != nil || r.Here != want || *r.Base != (spread{10, 10, 10}) {
		t.Errorf("%+v, %+v, %v", r.Here, r.Base, err)
	}
}

// TestPage: the table in the documentation is that of bench.json.
func TestPage(t *testing.T) {
	r, err := readReport("bench.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lines) != len(lines) || r.Rounds < 5 {
		t.Errorf("bench.json has %d lines of %d rounds, and %d lines are measured: make bench", len(r.Lines), r.Rounds, len(lines))
	}
	page, err := os.ReadFile("../../handlers/docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	if r.into(string(page)) != string(page) {
		t.Error("performance.md has another table than bench.json says: go run ./scripts/bench -from scripts/bench/bench.json -page handlers/docs/performance.md")
	}
}
