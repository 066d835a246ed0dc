package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/rediskv/health"
	"tollgate/wasm"
)

// seen collects what a client can see of a service.
type seen struct {
	api   *cli.Client
	found []health.Finding
	away  bool // nobody answers
}

func (s *seen) say(check string, level health.Level, message, advice string) {
	s.found = append(s.found, health.Finding{Check: check, Level: level, Message: message, Advice: advice})
}

// examineService is what a client sees of the service: whether it answers, is ready,
// speaks the same contract and has the same time; its own token; accounts and endpoints.
func examineService(ctx context.Context, a *cli.App, c *cli.Config) *seen {
	s := &seen{}
	api, err := a.NewClient(c)
	if err != nil {
		s.say("client", health.Failure, err.Error(), "set the variables that 'tollgate dev --write-env FILE' or your operator gives you")
		return s
	}
	api.HTTP.Timeout = doctorTimeout
	s.api = api
	at, err := api.Now(ctx)
	if err != nil {
		s.away = true
		s.say("service", health.Failure, fmt.Sprintf("%s does not answer: %v", api.Base, err), "look at TOLLGATE_URL, and whether the service runs")
		return s
	}
	s.say("service", health.Fine, api.Base+" answers", "")
	s.clock(at)
	s.ready(ctx)
	s.contract(ctx)
	scopes := s.token(ctx)
	if slices.Contains(scopes, string(auth.ScopeAccountsRead)) {
		s.accounts(ctx)
	}
	if slices.Contains(scopes, string(auth.ScopeWebhooksRead)) {
		s.webhooks(ctx)
	}
	return s
}

// clock compares both sides' clocks: Date has whole seconds, and a sandbox's may be far
// ahead.
func (s *seen) clock(at time.Time) {
	off := at.Sub(s.api.App.Clock().Truncate(time.Second))
	switch {
	case off.Abs() <= 5*time.Second:
		s.say("clock", health.Fine, "the service's clock agrees with this machine's", "")
	case off.Abs() <= time.Minute:
		s.say("clock", health.Warning, fmt.Sprintf("the service's clock is %+.0f s from this machine's", off.Seconds()), "set this machine's clock by NTP")
	default:
		s.say("clock", health.Warning, fmt.Sprintf("the service's clock is %s from this machine's", off), "set this machine's clock by NTP; in a sandbox the clock may have been moved ('tollgate clock')")
	}
}

// ready is what the service says of itself.
func (s *seen) ready(ctx context.Context) {
	var state struct {
		Status  string         `json:"status"`
		Checks  map[string]any `json:"checks"`
		Failing int            `json:"failing_rules"`
	}
	answer, err := s.ask(ctx, "/readyz", &state)
	switch {
	case err != nil:
		s.say("ready", health.Failure, err.Error(), "ask the operator, or look at the service's log")
		return
	case answer == http.StatusOK:
		s.say("ready", health.Fine, "the service takes payments", "")
	default:
		s.say("ready", health.Failure, "the service takes no payments at the moment", "look at the checks below, and at the service's log")
	}
	for _, check := range []string{"redis", "rules", "memory", "role", "policy", "persistence", "clock"} {
		text, _ := state.Checks[check].(string)
		switch text {
		case "ok", "", "unknown": // managed ones do not say
		case "warn", "filling":
			s.say("service "+check, health.Warning, "it says "+text, "run 'tollgate doctor' with TOLLGATE_REDIS_URL where the service runs")
		default:
			s.say("service "+check, health.Failure, "it says "+text, "run 'tollgate doctor' with TOLLGATE_REDIS_URL where the service runs")
		}
	}
	if state.Failing > 0 {
		s.say("rules", health.Failure, fmt.Sprintf("%d rules fail", state.Failing), "roll back what was activated last: 'tollgate rule activations'")
	} else if state.Checks["rules"] == "ok" {
		s.say("rules", health.Fine, "all rules in force are compiled, and none fails", "")
	}
}

// ask reads an address that needs no token, whatever the status.
func (s *seen) ask(ctx context.Context, path string, into any) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api.Base+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := s.api.HTTP.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if err := json.UnmarshalRead(http.MaxBytesReader(nil, response.Body, cli.MaxAnswer), into); err != nil {
		return 0, fmt.Errorf("%s is no answer of Tollgate: status %d", path, response.StatusCode)
	}
	return response.StatusCode, nil
}

// contract compares the routes of both sides.
func (s *seen) contract(ctx context.Context) {
	type document struct {
		Paths map[string]any `json:"paths"`
	}
	var ours, theirs document
	if err := json.Unmarshal(handlers.OpenAPI(), &ours); err != nil {
		s.say("version", health.Failure, err.Error(), "")
		return
	}
	if _, err := s.ask(ctx, "/openapi.json", &theirs); err != nil {
		s.say("version", health.Warning, err.Error(), "look whether TOLLGATE_URL is a Tollgate")
		return
	}
	lacks := func(a, b document) (n int) {
		for path := range a.Paths {
			if _, ok := b.Paths[path]; !ok {
				n++
			}
		}
		return n
	}
	switch older, newer := lacks(ours, theirs), lacks(theirs, ours); {
	case newer > 0:
		s.say("version", health.Warning, fmt.Sprintf("the service is newer: it has %d routes that tollgate %s does not know", newer, cli.VersionText()), "install the service's release of tollgate here")
	case older > 0:
		s.say("version", health.Warning, fmt.Sprintf("the service is older: it lacks %d routes that tollgate %s knows", older, cli.VersionText()), "update the service, or use its release of tollgate here")
	default:
		s.say("version", health.Fine, "both sides know the same routes", "")
	}
}

// token gets one, and says what it allows.
func (s *seen) token(ctx context.Context) (scopes []string) {
	token, err := s.api.Authorization(ctx)
	if err == nil {
		scopes, err = client.ScopesOf(token)
	}
	if err != nil {
		advice := "look at TOLLGATE_CLIENT_ID, TOLLGATE_CLIENT_JWK and TOLLGATE_ISSUER, and at the clock above"
		s.say("token", health.Failure, firstLine(err), advice)
		return nil
	}
	s.say("token", health.Fine, "you get a token", "")
	var lacking []string
	for _, scope := range auth.AllScopes() {
		if !slices.Contains(scopes, string(scope)) {
			lacking = append(lacking, string(scope))
		}
	}
	if len(lacking) == 0 {
		s.say("scopes", health.Fine, fmt.Sprintf("all %d", len(scopes)), "")
	} else {
		s.say("scopes", health.Fine, fmt.Sprintf("%d; not %s", len(scopes), strings.Join(lacking, ", ")), "")
	}
	return scopes
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// accounts looks for those that take no payments, and for rules that say nothing.
func (s *seen) accounts(ctx context.Context) {
	all, err := s.api.Accounts(ctx, nil)
	if err != nil {
		s.say("accounts", health.Failure, firstLine(err), "try 'tollgate accounts'")
		return
	}
	for _, a := range all {
		if a.Status != tollgate.StatusActive {
			s.say("accounts", health.Warning, fmt.Sprintf("%s (%s) is %s and takes no payments", a.ID, a.Name, a.Status), "provision it as active, if it should take payments")
		}
		for _, silent := range a.SilentRules {
			s.say("rules", health.Warning, fmt.Sprintf("%s charges %s nothing in %s, and does not say that this is meant", silent.Rule, a.ID, cli.Joined(silent.Currencies, "-")),
				"give each a fee, or say otherwise = \"refuse\" or \"free\" in the rule's next version")
		}
	}
	s.say("accounts", health.Fine, fmt.Sprintf("your grant covers %d", len(all)), "")
}

// webhooks looks at each endpoint: its state, its latest deliveries, and whether it can
// be reached from here.
func (s *seen) webhooks(ctx context.Context) {
	query := url.Values{"limit": {"100"}}
	_, page, err := cli.Read[tollgate.List[tollgate.Listed[tollgate.WebhookEndpoint]]](s.api.Get(ctx, "/v1/webhooks", query))
	if err != nil {
		s.say("webhooks", health.Failure, firstLine(err), "try 'tollgate webhooks list'")
		return
	}
	for _, entry := range page.Data {
		if w := &entry.Value; entry.Damage == nil {
			s.endpoint(ctx, w)
		}
	}
	if len(page.Data) == 0 {
		s.say("webhooks", health.Fine, "there are no endpoints", "")
	}
}

func (s *seen) endpoint(ctx context.Context, w *tollgate.WebhookEndpoint) {
	if w.Status != tollgate.WebhookActive {
		s.say("webhooks", health.Warning, fmt.Sprintf("%s is disabled (%s)", w.ID, cli.Deref(w.DisabledReason)),
			fmt.Sprintf("'tollgate webhooks enable %s', then 'tollgate recover %s --since 24h'", w.ID, w.ID))
		return
	}
	waiting := "failed,retrying,held"
	_, page, err := cli.Read[tollgate.List[cli.Raw]](s.api.Get(ctx, "/v1/webhooks/"+w.ID+"/deliveries", url.Values{"state": {waiting}, "limit": {"100"}}))
	if err == nil && len(page.Data) > 0 {
		s.say("webhooks", health.Warning, fmt.Sprintf("%s has %d deliveries that did not arrive", w.ID, len(page.Data)),
			fmt.Sprintf("'tollgate deliveries %s --state %s' says why", w.ID, waiting))
	}
	if err := dial(ctx, w.URL); err != nil {
		s.say("webhooks", health.Warning, fmt.Sprintf("%s: %s cannot be reached from this machine: %v", w.ID, w.URL, err), "start the receiver, or correct the URL with 'tollgate webhooks update'")
		return
	}
	s.say("webhooks", health.Fine, fmt.Sprintf("%s: %s can be reached from this machine", w.ID, w.URL), "")
}

// dial connects to a receiver, with TLS where the URL has it, and sends nothing.
func dial(ctx context.Context, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	port, secure := u.Port(), u.Scheme == "https"
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[secure]
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if secure {
		dialer = &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}
	}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		var failed *net.OpError
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return err
	}
	return connection.Close()
}

// builtinFinding says whether this binary can run rules on this machine.
func builtinFinding(ctx context.Context) health.Finding {
	engine, err := wasm.NewEngine(ctx)
	if err == nil {
		err = errors.Join(engine.LoadBuiltin(ctx), engine.Close(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return health.Finding{Check: "rules", Level: health.Failure, Message: "the rules of this binary do not compile here: " + err.Error(), Advice: "install the release again"}
	}
	return health.Finding{Check: "rules", Level: health.Fine, Message: "the rules of this binary compile here"}
}
