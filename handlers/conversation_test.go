package handlers_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
)

// The conversations in testdata/*.txt are the specification, executable: one
// file per section, played against a server over HTTP, every exchange also
// held to the OpenAPI document. They are written for reading:
//
//	# A comment. Exchanges and directives stand between blank lines.
//
//	! as eur_only                      asks with a token of that grant from here on
//	! as all payments:read             with these scopes only; "as nobody" is without a token
//	! clock +24h                       moves the service's clock
//	! account eur paused               an operator provisions the status of an account,
//	! grant all revoked                a grant
//	! organization suspended           or the organization; the server is not told
//	! refresh                          now it is
//	! assertion shop                   makes $assertion, of that client, good for one use
//	! times 50                         the next exchange takes place that often
//	! sweep                            what the worker does with payments whose time is up
//	! seal                             what the worker does with the audit record, twice
//	! trim                             the log of events keeps the newest alone
//	! drain                            what a stop begins with
//	! keep first                       remembers the last answer
//	! same first                       the last answer has that status and those bytes
//	! rules eur platform_fee@v1        an operator gives an account the next version of its rule set
//	! publication rule:x@v1 1.5        makes $module, $golden and $signature of a rule of 1.5 percent
//	! instance ready                   another instance lives and has all that is to come; "instance
//	                                   lacking" has nothing, "instance failing" cannot load it, "instance gone"
//	! compared $shadow 2               waits until a shadow has compared so many
//	! activations                      what the worker does with activations whose time has come
//	! audit payment.create succeeded   the newest entry of the audit record has this type and outcome
//
//	> POST /v1/payments                a request; Authorization, and Content-Type beside
//	> Idempotency-Key: k1              a body, are there by default. "Name: -" takes one
//	> {"amount":"10.00", …             away, a header may stand twice. Everything from the
//	> …}                               first line on that is no header is the body.
//	< 201                              the answer: its status; of an error also code and,
//	< Location: /v1/payments/$pay      if there is one, param ("< 400 parameter_missing
//	< {"id":"$pay","status":"authorized", …}    amount"); headers, "-" for none; the body
//
// $name is an id of the world (world_test.go) or what was captured: where it
// stands for the first time in an answer it takes the text there, later it
// must be the same. ${x*300} is a text 300 times. In an answer … stands for
// anything: any text within a string or header, any value, other members of
// an object, further elements of an array. An object without … has exactly
// the members shown. Numbers and literals are compared as they are.
func TestConversations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if must(t, files, err); len(files) < 10 {
		t.Fatalf("found %d conversations", len(files))
	}
	recorder := newRecorder(t)
	played, tickets := 0, 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			steps, err := parseConversation(file, string(must(t, text, err)))
			p := &player{world: newWorldOn(t, redistest.URL(t), recorder), kept: make(map[string]reply), grant: "all"}
			for _, step := range must(t, steps, err) {
				check(t, p.step(step)) // what follows depends on it
			}
			p.checkRecord(t)
			tickets += p.checkTickets(t)
			played++
		})
	}
	if played < len(files) {
		return // some were not asked for, or failed
	}
	if tickets < 40 {
		t.Errorf("%d tickets were run again", tickets)
	}
	// Every documented answer comes, except those that cannot or that are the
	// same for all operations and are tried there (badinput_test.go; 410 in
	// TestHistoryChangesForEveryOperation, 421 in TestPlainHTTPToEveryOperation, 429 in
	// TestSharesOfAllOperations, 501 in TestPublishingUnavailable).
	everywhere := []string{"400", "401", "403", "406", "413", "414", "415", "421", "429", "431", "500", "501", "503"}
	for _, answer := range recorder.Unseen() {
		changed := strings.HasSuffix(answer, " 410") && !slices.Contains([]string{"listEvents 410", "readExportFile 410"}, answer)
		if !changed && !slices.Contains(everywhere, answer[len(answer)-3:]) {
			t.Errorf("no conversation has the documented answer %s", answer)
		}
	}
}
