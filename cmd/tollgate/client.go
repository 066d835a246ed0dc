package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate/handlers/auth"
)

// client is the command line as a client of the service.
type client struct {
	a       *app
	cmd     *cobra.Command
	http    http.Client
	base    string // without a trailing slash
	issuer  string
	id      string
	jwk     []byte // private; nil when only a token is known
	grant   string
	token   string
	renewAt time.Time // of a token that was fetched

	signature string // in the next request, see unanswered

	json, quiet bool
}

const (
	maxAnswer      = 8 << 20          // of an answer, what is read
	requestTimeout = 30 * time.Second // unless a command has another
)

// clientCommand makes a command of do, which talks to the service.
func (a *app) clientCommand(c *cobra.Command, do func(ctx context.Context, api *client, args []string) error) *cobra.Command {
	asJSON, quiet, timeout := false, false, requestTimeout
	c.Flags().BoolVar(&asJSON, "json", false, "print the server's JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the id")
	c.Flags().DurationVar(&timeout, "timeout", timeout, "how long one request may take")
	c.MarkFlagsMutuallyExclusive("json", "quiet")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := a.newClient(a.config(cmd))
		if err != nil {
			return err
		}
		api.json, api.quiet, api.http.Timeout = asJSON, quiet, timeout
		return do(cmd.Context(), api, args)
	}
	return c
}

func (a *app) newClient(c *config) (*client, error) {
	api := &client{
		a: a, cmd: c.cmd, http: http.Client{Timeout: requestTimeout}, base: strings.TrimSuffix(c.text("url"), "/"), issuer: c.text("issuer"),
		id: c.text("client-id"), grant: c.text("grant"),
	}
	if topLevel(c.cmd) != "token" {
		api.token = c.text("token")
	}
	u, err := url.Parse(api.base)
	switch {
	case api.base == "":
		return nil, usageError(errors.New("set TOLLGATE_URL, for instance by sourcing the file that 'tollgate dev --write-env FILE' writes"))
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, usageError(fmt.Errorf("TOLLGATE_URL: %q is not an http or https URL", api.base))
	}
	if api.issuer == "" {
		api.issuer = api.base
	}
	if text := c.text("client-jwk"); text != "" {
		keys, err := readJWKs(text)
		if err != nil || len(keys) != 1 {
			return nil, usageError(errors.Join(errors.New("TOLLGATE_CLIENT_JWK must be one private JWK or the path of a file with it"), err))
		}
		api.jwk = keys[0]
	}
	switch {
	case api.jwk != nil && api.id == "":
		return nil, usageError(errors.New("TOLLGATE_CLIENT_JWK is set but TOLLGATE_CLIENT_ID is not"))
	case api.jwk == nil && api.token == "":
		return nil, usageError(errors.New("set TOLLGATE_CLIENT_ID and TOLLGATE_CLIENT_JWK (or TOLLGATE_TOKEN)"))
	}
	return api, nil
}

// issued is the answer of the token endpoint (RFC 6749 §5.1).
type issued struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope"`
}

// fetchToken exchanges a new assertion for an access token (RFC 7523 §2.2).
func (c *client) fetchToken(ctx context.Context, scope string) (issued, jsontext.Value, error) {
	var t issued
	assertion, err := auth.SignAssertion(c.jwk, c.id, c.issuer, c.a.randomText(), c.a.clock())
	if err != nil {
		return t, nil, usageError(fmt.Errorf("TOLLGATE_CLIENT_JWK: %w", err))
	}
	form := url.Values{
		"grant_type":            {"client_credentials"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {assertion},
	}
	if scope != "" {
		form.Set("scope", scope)
	}
	if c.grant != "" {
		form.Set("grant_id", c.grant)
	}
	body, err := c.send(ctx, http.MethodPost, "/oauth2/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form.Encode()))
	if err != nil {
		return t, nil, err
	}
	return t, body, parse(body, &t)
}

// authorization returns a token that is good for the next request.
func (c *client) authorization(ctx context.Context) (string, error) {
	if c.jwk == nil || c.a.clock().Before(c.renewAt) {
		return c.token, nil
	}
	t, _, err := c.fetchToken(ctx, "")
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	c.token = t.AccessToken
	c.renewAt = c.a.clock().Add(time.Duration(t.ExpiresIn)*time.Second - time.Minute)
	return c.token, nil
}

// get reads path with a query.
func (c *client) get(ctx context.Context, path string, query url.Values) (jsontext.Value, error) {
	token, err := c.authorization(ctx)
	if err != nil {
		return nil, err
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.send(ctx, http.MethodGet, path, http.Header{"Authorization": {"Bearer " + token}}, nil)
}

// post makes a POST with body as JSON and an idempotency key, none when it is
// empty.
func (c *client) post(ctx context.Context, path string, body any, key string) (jsontext.Value, error) {
	return c.write(ctx, http.MethodPost, path, body, key)
}

// write sends body as JSON, nothing when it is nil. With an idempotency key it
// tries again when the answer is lost or says to: the key makes that the same
// request. The key is announced before the request leaves.
func (c *client) write(ctx context.Context, method, path string, body any, key string) (jsontext.Value, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			return nil, err
		}
	}
	var u *unanswered
	for attempt := 0; ; attempt++ {
		token, err := c.authorization(ctx)
		if err != nil {
			return nil, u.ended(err)
		}
		if key != "" && attempt == 0 {
			u = c.announce(method, path, text, key)
		}
		header := http.Header{"Authorization": {"Bearer " + token}}
		if body != nil {
			header.Set("Content-Type", "application/json")
		}
		if key != "" {
			header.Set("Idempotency-Key", key)
		}
		answer, err := c.send(ctx, method, path, header, text)
		u.attempted(err)
		var refused *refusal
		again := err != nil && (!errors.As(err, &refused) || refused.retriable())
		if !again || key == "" || attempt == 3 {
			return answer, u.ended(err)
		}
		wait := 200 * time.Millisecond << attempt
		if refused != nil {
			wait = max(wait, min(refused.retryAfter, 5*time.Second))
		}
		select {
		case <-ctx.Done():
			return nil, u.ended(err)
		case <-time.After(wait):
		}
	}
}

// send makes one request. The error is a *refusal for an answer that is not
// 2xx, anything else when there was no answer.
func (c *client) send(ctx context.Context, method, path string, header http.Header, body []byte) (jsontext.Value, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, usageError(err)
	}
	request.Header = header
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "tollgate/"+versionText())
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unavailableError(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, unavailableError(fmt.Errorf("%s %s: %w", method, path, err))
	}
	if response.StatusCode >= 300 {
		return nil, newRefusal(response, text, c.json)
	}
	return text, nil
}

// now is what the service's clock says, to the second: the sandbox's may be
// ahead of this machine's.
func (c *client) now(ctx context.Context) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/healthz", nil)
	if err != nil {
		return time.Time{}, usageError(err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return time.Time{}, unavailableError(err)
	}
	response.Body.Close()
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil { // a proxy that sends none
		return c.a.clock(), nil
	}
	return at, nil
}

func newRefusal(response *http.Response, body []byte, asJSON bool) *refusal {
	r := &refusal{status: response.StatusCode, body: body, asJSON: asJSON}
	_ = json.Unmarshal(body, &r.Problem) // a proxy's page leaves it empty; the status speaks
	if r.RequestID == "" {
		r.RequestID = response.Header.Get("Request-Id")
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	r.retryAfter = time.Duration(min(max(seconds, 0), 60)) * time.Second
	return r
}

func parse(body jsontext.Value, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return unavailableError(fmt.Errorf("the server's answer: %w", err))
	}
	return nil
}

// show prints an answer in the form that was asked for.
func (c *client) show(body jsontext.Value, id string, text *table) error {
	switch {
	case c.json:
		return c.a.printJSON(body)
	case c.quiet:
		_, err := fmt.Fprintln(c.a.stdout, id)
		return err
	default:
		return c.a.print(text)
	}
}
