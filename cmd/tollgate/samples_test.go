package main

import (
	"compress/gzip"
	"html"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// block is a block of commands on a rendered page, and in the reference of the API the
// operation that it shows and the status of its last answer.
var block = regexp.MustCompile(`(?s)<code data-language="sh"(?: data-status="(\d+)" data-operation="(\w+)")?>(.*?)</code></pre>`)

var tags = regexp.MustCompile(`<[^>]*>`)

// samples pastes all commands of the reference of the API, as it is served, from the
// top into one shell. Each operation's last answer must have the status that the page
// promises: the curl of the script leaves its headers in the file.
func samples(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: samples headers")
	}
	packed, err := os.Open("../../handlers/docs/site/api.gz")
	ts.Check(err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	ts.Check(err)
	page, err := io.ReadAll(unpacked)
	ts.Check(err)
	p, played := newPlayer(ts), 0
	for i, m := range block.FindAllStringSubmatch(string(page), -1) {
		status, operation, commands := m[1], m[2], html.UnescapeString(tags.ReplaceAllString(m[3], ""))
		printed, why := p.play(i, walkStep{commands: commands + "\n"})
		if why != "" {
			ts.Fatalf("%s: %s in\n%s\nthese commands print\n%s", operation, why, commands, printed)
		}
		if operation == "" {
			continue
		}
		played++
		headers := ts.ReadFile(args[0])
		if got, _, _ := strings.Cut(strings.TrimPrefix(headers, "HTTP/1.1 "), " "); got != status {
			ts.Fatalf("%s: the page promises %s, the answer is %s to\n%s\nthese commands print\n%s", operation, status, got, commands, printed)
		}
		ts.Check(os.Remove(ts.MkAbs(args[0])))
	}
	if whole := strings.Count(string(page), ` data-operation="`); played != whole || played < 50 {
		ts.Fatalf("%d of the page's %d operations were played", played, whole)
	}
}
