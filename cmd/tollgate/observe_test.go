package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

var (
	selected = regexp.MustCompile(`\b((?:tollgate|process|go)_\w+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*[=!]~?`)
	sample   = regexp.MustCompile(`(?m)^(\w+)(?:\{([^}]*)\})? `)

	// Not there as long as nothing is wrong, or without a replica or a certificate. The source has them.
	inTrouble = []string{"tollgate_damaged_objects_total", "tollgate_rule_failing", "tollgate_replica_lag_seconds", "tollgate_tls_certificate_expires_timestamp_seconds"}
)

// observed FILE… compares the alerts and the dashboard with what processes have
// answered at /metrics: each metric and each label that they name must be there.
func observed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: observed file…")
	}
	labels := map[string]string{"up": "job instance"}
	for _, file := range args {
		for _, m := range sample.FindAllStringSubmatch(ts.ReadFile(file), -1) {
			labels[m[1]] += " job instance " + strings.Join(names(m[2]), " ")
		}
	}
	source, err := filepath.Glob("server/*.go")
	ts.Check(err)
	var code strings.Builder
	for _, file := range source {
		text, err := os.ReadFile(file)
		ts.Check(err)
		code.Write(text)
	}
	count := 0
	for _, expression := range expressions(ts) {
		for _, m := range selected.FindAllStringSubmatch(expression, -1) {
			count++
			has, ok := labels[m[1]]
			if !ok && slices.Contains(inTrouble, m[1]) && strings.Contains(code.String(), `"`+m[1]+`"`) {
				continue
			}
			if !ok {
				ts.Fatalf("%s names %s, which no process exports", expression, m[1])
			}
			for _, label := range names(m[2]) {
				if !slices.Contains(strings.Fields(has), label) {
					ts.Fatalf("%s: %s has no label %s", expression, m[1], label)
				}
			}
		}
	}
	if count < 50 {
		ts.Fatalf("%d metrics are named: the test does not see them", count)
	}
}

func names(labels string) (list []string) {
	for _, m := range matcher.FindAllStringSubmatch(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(labels, ""), -1) {
		list = append(list, m[1])
	}
	return list
}

// expressions are those of the alerts and of the dashboard.
func expressions(ts *testscript.TestScript) (list []string) {
	alerts, err := os.ReadFile("../../scripts/observe/alerts.yaml")
	ts.Check(err)
	for _, m := range regexp.MustCompile(`(?s)expr: (.*?)\n +(?:for|labels):`).FindAllStringSubmatch(string(alerts), -1) {
		list = append(list, m[1])
	}
	dashboard, err := os.ReadFile("../../scripts/observe/grafana/tollgate.json")
	ts.Check(err)
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	ts.Check(json.Unmarshal(dashboard, &d))
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			list = append(list, t.Expr)
		}
	}
	return list
}
