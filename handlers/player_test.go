package handlers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers"
	"tollgate/rediskv/instances"
)

// player plays one conversation.
type player struct {
	*world
	grant, scope string // who asks; no grant is nobody
	last         reply
	kept         map[string]reply
	times        int                 // how often the next exchange takes place; 0 is once
	other        *instances.Instance // another instance of the service, as it spoke last
}

// step plays one step; its error says where it is and what is wrong.
func (p *player) step(s step) error {
	if p.other != nil { // nobody listens to one that was silent for long
		if err := p.store.Heartbeat(p.t.Context(), *p.other); err != nil {
			return fmt.Errorf("%s: %w", s.at, err)
		}
	}
	if s.directive == nil {
		for range max(p.times, 1) {
			if err := p.exchange(s); err != nil {
				return fmt.Errorf("%s: %w", s.at, err)
			}
		}
		p.times = 0
		return nil
	}
	direct := p.direct
	if p.edge != nil {
		direct = p.directEdge
	}
	if err := direct(s.directive); err != nil {
		return fmt.Errorf("%s: ! %s: %w", s.at, strings.Join(s.directive, " "), err)
	}
	return nil
}

func (p *player) direct(words []string) error {
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case "as":
		p.grant, p.scope = word(1), strings.Join(words[2:], " ")
		if p.grant == "nobody" {
			p.grant = ""
		}
	case "clock":
		d, err := time.ParseDuration(word(1))
		p.advance(d)
		return err
	case "account":
		p.account(word(1)).Status = word(2)
		p.apply("")
	case "grant":
		p.world.grant(word(1)).Status = word(2)
		p.apply("")
	case "organization":
		p.configs[""].Organization.Status = word(1)
		p.apply("")
	case "refresh":
		p.store.Refresh(p.vars["org"])
	case "times":
		var err error
		p.times, err = strconv.Atoi(word(1))
		return err
	case "assertion":
		p.vars["assertion"] = p.assertion(word(1))
	case "forget":
		delete(p.vars, word(1))
	case "sweep":
		return p.sweep()
	case "seal":
		p.sealed()
	case "sandbox": // off
		p.serveWith(func(c *handlers.Config) { c.Advance = nil })
	case "settle":
		outcome := tollgate.PayoutOutcome{}
		if account := word(1); account != "" && account != "failing" { // whose payout is damaged first
			p.settleDamaged(account)
			return nil
		}
		if word(1) == "failing" {
			outcome.Failure = "The bank account is closed."
		}
		return p.settle(p.t.Context(), outcome)
	case "trim":
		return command(p.t, p.redis, "XTRIM", p.eventLog(), "MAXLEN", "1")
	case "ready":
		p.ready()
	case "drain":
		p.server.Drain()
	case "keep":
		p.kept[word(1)] = p.last
	case "same":
		kept := p.kept[word(1)]
		if p.last.text != kept.text || p.last.StatusCode != kept.StatusCode || p.last.Header.Get("Location") != kept.Header.Get("Location") {
			return fmt.Errorf("%d %s\nis not\n%d %s", p.last.StatusCode, p.last.text, kept.StatusCode, kept.text)
		}
	case "audit":
		return p.audited(words[1:])
	case "rules":
		p.ruleSet(word(1), words[2:])
	case "publication":
		return p.publication(words[1:])
	case "compared":
		return p.compared(words[1:])
	case "instance":
		return p.instance(words[1:])
	case "activations":
		return p.activations()
	default:
		return p.directWebhooks(words)
	}
	return nil
}

// eventLog is the key of the organization's events.
func (p *player) eventLog() string {
	for key := range dump(p.t, p.redis) {
		if strings.HasSuffix(key, p.vars["org"]+":events") {
			return key
		}
	}
	return ""
}

// sweep expires what is due, as the worker does.
func (p *player) sweep() error {
	for partition := range p.store.Partitions() {
		due, err := p.store.DuePayments(p.t.Context(), partition, 100)
		if err != nil {
			return err
		}
		for _, d := range due {
			if err := p.store.ExpirePayment(p.t.Context(), d.Organization, d.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *player) exchange(s step) error {
	req, err := p.asked(s.request)
	if err != nil {
		return err
	}
	if p.last, err = p.try(req); err != nil {
		return err
	}
	differences, err := p.differences(s.answer)
	if err != nil || len(differences) == 0 {
		return err
	}
	body := jsontext.Value(p.last.text)
	_ = body.Indent() // a body that is no JSON stays as it is
	return fmt.Errorf("%s %s\n\t%s\nanswered %d %v\n%s", req.Method, req.URL.RequestURI(),
		strings.Join(differences, "\n\t"), p.last.StatusCode, p.last.Header, body)
}

// asked makes the request of an exchange.
func (p *player) asked(m message) (*http.Request, error) {
	path, err := fill(m.first[1], p.vars)
	if err != nil {
		return nil, err
	}
	body, err := fill(m.body, p.vars)
	if err != nil {
		return nil, err
	}
	var headers []string
	named := func(h [2]string) bool { return strings.EqualFold(h[0], "Authorization") }
	switch {
	case slices.ContainsFunc(m.headers, named):
	case p.grant == "":
		headers = []string{"Authorization", ""}
	default:
		headers = []string{"Authorization", "Bearer " + p.token(p.grant, p.scope)}
	}
	for _, h := range m.headers {
		value, err := fill(h[1], p.vars)
		if err != nil {
			return nil, err
		}
		if value == "-" {
			value = ""
		}
		headers = append(headers, h[0], value)
	}
	return p.request(m.first[0], path, body, headers...), nil
}

// differences compares the last answer with what is expected.
func (p *player) differences(want message) (found []string, err error) {
	first := append(want.first, "", "")
	if have := strconv.Itoa(p.last.StatusCode); have != first[0] {
		found = append(found, fmt.Sprintf("status is %s, not %s", have, first[0]))
	}
	if p.last.StatusCode >= 400 && (first[1] != "" || want.body == "") {
		for i, name := range []string{"code", "param"} {
			if have, _ := p.last.body[name].(string); have != first[1+i] {
				found = append(found, fmt.Sprintf("%s is %q, not %q", name, have, first[1+i]))
			}
		}
	}
	for _, h := range want.headers {
		have := strings.Join(p.last.Header.Values(h[0]), ", ")
		if pattern := strings.TrimPrefix(h[1], "-"); !matchText(pattern, have, p.vars) {
			found = append(found, fmt.Sprintf("%s is %q, not %q", h[0], have, h[1]))
		}
	}
	if want.body == "" {
		return found, nil
	}
	if p.last.body == nil { // a file: its text
		if have := strings.ReplaceAll(p.last.text, "\r\n", "\n"); !matchText(want.body, strings.TrimSuffix(have, "\n"), p.vars) {
			found = append(found, fmt.Sprintf("the file is\n%s", have))
		}
		return found, nil
	}
	more, err := matchJSON(want.body, p.last.text, p.vars)
	return append(found, more...), err
}

// audited compares the newest entry of the audit record: type, outcome and,
// if there is a third word, its reason.
func (p *player) audited(want []string) error {
	entries := dump(p.t, p.redis).stream(p.vars["org"] + ":audit")
	if p.edge != nil && !strings.HasPrefix(want[0], "token.") { // more are asked for there, as its clock is that of the sandbox
		entries = slices.DeleteFunc(entries, func(text string) bool { return strings.Contains(text, `"type":"token.issue"`) })
	}
	if len(entries) == 0 {
		return fmt.Errorf("the record is empty")
	}
	var e tollgate.AuditEntry
	if err := json.Unmarshal([]byte(entries[len(entries)-1]), &e); err != nil {
		return err
	}
	have := []string{e.Type, e.Outcome, e.Reason}[:len(want)]
	if strings.Join(have, " ") != strings.Join(want, " ") {
		return fmt.Errorf("it is %v", have)
	}
	return nil
}
