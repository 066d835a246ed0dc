package cli

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
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate/handlers/auth"
)

// Client is the command line as a client of the service. Several goroutines may use
// one, but for requests with an idempotency key.
type Client struct {
	App     *App
	cmd     *cobra.Command
	HTTP    http.Client
	Base    string // without a trailing slash
	Issuer  string
	ID      string
	JWK     []byte // private; nil when only a token is known
	grant   string
	Token   string
	RenewAt time.Time  // of a token that was fetched
	renew   sync.Mutex // guards both
	proofs  *proofs    // nil: it gets bearer tokens alone

	Signature string // in the next request, see unanswered

	JSON, Quiet bool
}

const (
	MaxAnswer      = 8 << 20          // of an answer, what is read
	requestTimeout = 30 * time.Second // unless a command has another
)

// ClientCommand makes a command of do, which talks to the service.
func (a *App) ClientCommand(c *cobra.Command, do func(ctx context.Context, api *Client, args []string) error) *cobra.Command {
	asJSON, quiet, timeout := false, false, requestTimeout
	c.Flags().BoolVar(&asJSON, "json", false, "print the server's JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the id")
	c.Flags().DurationVar(&timeout, "timeout", timeout, "how long one request may take")
	c.MarkFlagsMutuallyExclusive("json", "quiet")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := a.NewClient(a.Config(cmd))
		if err != nil {
			return err
		}
		api.JSON, api.Quiet, api.HTTP.Timeout = asJSON, quiet, timeout
		return do(cmd.Context(), api, args)
	}
	return c
}

// NewClient is a client with the settings of a command.
func (a *App) NewClient(c *Config) (*Client, error) {
	api := &Client{
		App: a, cmd: c.Command, HTTP: http.Client{Timeout: requestTimeout}, Base: strings.TrimSuffix(c.Text("url"), "/"), Issuer: c.Text("issuer"),
		ID: c.Text("client-id"), grant: c.Text("grant"),
	}
	if topLevel(c.Command) != "token" {
		api.Token = c.Text("token")
	}
	u, err := url.Parse(api.Base)
	switch {
	case api.Base == "":
		return nil, UsageError(errors.New("set TOLLGATE_URL, for instance by sourcing the file that 'tollgate dev --write-env FILE' writes"))
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, UsageError(fmt.Errorf("TOLLGATE_URL: %q is not an http or https URL", api.Base))
	}
	if api.Issuer == "" {
		api.Issuer = api.Base
	}
	api.proofs = &proofs{app: a, base: u, issuer: strings.TrimSuffix(api.Issuer, "/")}
	api.HTTP.Transport = &proving{api.proofs, http.DefaultTransport}
	if text := c.Text("client-jwk"); text != "" {
		keys, err := ReadJWKs(text)
		if err != nil || len(keys) != 1 {
			return nil, UsageError(errors.Join(errors.New("TOLLGATE_CLIENT_JWK must be one private JWK or the path of a file with it"), err))
		}
		api.JWK = keys[0]
	}
	switch {
	case api.JWK != nil && api.ID == "":
		return nil, UsageError(errors.New("TOLLGATE_CLIENT_JWK is set but TOLLGATE_CLIENT_ID is not"))
	case api.JWK == nil && api.Token == "":
		return nil, UsageError(errors.New("set TOLLGATE_CLIENT_ID and TOLLGATE_CLIENT_JWK (or TOLLGATE_TOKEN)"))
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

// FetchToken exchanges a new assertion for an access token (RFC 7523 §2.2).
func (c *Client) FetchToken(ctx context.Context, scope string) (issued, jsontext.Value, error) {
	var t issued
	assertion, err := auth.SignAssertion(c.JWK, c.ID, c.Issuer, c.App.RandomText(), c.App.Clock())
	if err != nil {
		return t, nil, UsageError(fmt.Errorf("TOLLGATE_CLIENT_JWK: %w", err))
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
	body, err := c.Send(ctx, http.MethodPost, "/oauth2/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form.Encode()))
	if err != nil {
		return t, nil, err
	}
	return t, body, Parse(body, &t)
}

// Authorization returns a token that is good for the next request.
func (c *Client) Authorization(ctx context.Context) (string, error) {
	c.renew.Lock()
	defer c.renew.Unlock()
	if c.JWK == nil || c.App.Clock().Before(c.RenewAt) {
		return c.Token, nil
	}
	t, _, err := c.FetchToken(ctx, "")
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	c.Token = t.AccessToken
	c.RenewAt = c.App.Clock().Add(time.Duration(t.ExpiresIn)*time.Second - time.Minute)
	return c.Token, nil
}

// Get reads path with a query.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (jsontext.Value, error) {
	token, err := c.Authorization(ctx)
	if err != nil {
		return nil, err
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.Send(ctx, http.MethodGet, path, http.Header{"Authorization": {"Bearer " + token}}, nil)
}

// Post makes a POST with body as JSON and an idempotency key, none when it is
// empty.
func (c *Client) Post(ctx context.Context, path string, body any, key string) (jsontext.Value, error) {
	return c.Write(ctx, http.MethodPost, path, body, key)
}

// Write sends body as JSON, nothing when it is nil. With an idempotency key it
// tries again when the answer is lost or says to: the key makes that the same
// request. The key is announced before the request leaves.
func (c *Client) Write(ctx context.Context, method, path string, body any, key string) (jsontext.Value, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			return nil, err
		}
	}
	var u *Unanswered
	for attempt := 0; ; attempt++ {
		token, err := c.Authorization(ctx)
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
		answer, err := c.Send(ctx, method, path, header, text)
		u.attempted(err)
		var refused *Refusal
		again := err != nil && (!errors.As(err, &refused) || refused.Retriable())
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

// Send makes one request. The error is a *refusal for an answer that is not
// 2xx, anything else when there was no answer.
func (c *Client) Send(ctx context.Context, method, path string, header http.Header, body []byte) (jsontext.Value, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return nil, UsageError(err)
	}
	request.Header = header
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "tollgate/"+VersionText())
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, UnavailableError(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, MaxAnswer))
	if err != nil {
		return nil, UnavailableError(fmt.Errorf("%s %s: %w", method, path, err))
	}
	if response.StatusCode >= 300 {
		return nil, NewRefusal(response, text, c.JSON)
	}
	return text, nil
}

// Now is what the service's clock says, to the second: the sandbox's may be
// ahead of this machine's.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+"/healthz", nil)
	if err != nil {
		return time.Time{}, UsageError(err)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return time.Time{}, UnavailableError(err)
	}
	response.Body.Close()
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil { // a proxy that sends none
		return c.App.Clock(), nil
	}
	return at, nil
}

// NewRefusal reads an answer that is no success.
func NewRefusal(response *http.Response, body []byte, asJSON bool) *Refusal {
	r := &Refusal{Status: response.StatusCode, body: body, AsJSON: asJSON}
	_ = json.Unmarshal(body, &r.Problem) // a proxy's page leaves it empty; the status speaks
	if r.RequestID == "" {
		r.RequestID = response.Header.Get("Request-Id")
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	r.retryAfter = time.Duration(min(max(seconds, 0), 60)) * time.Second
	return r
}

// Read reads what a request was answered with.
func Read[T any](body jsontext.Value, err error) (jsontext.Value, T, error) {
	var v T
	if err == nil {
		err = Parse(body, &v)
	}
	return body, v, err
}

// Parse reads an answer of the service.
func Parse(body jsontext.Value, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return UnavailableError(fmt.Errorf("the server's answer: %w", err))
	}
	return nil
}

// Answered prints what a request was answered with; form is its id and its table.
func Answered[T any](c *Client, form func(*T) (id string, text *Table)) func(jsontext.Value, error) error {
	return func(body jsontext.Value, err error) error {
		body, v, err := Read[T](body, err)
		if err != nil {
			return err
		}
		id, text := form(&v)
		return c.Show(body, id, text)
	}
}

// Show prints an answer in the form that was asked for.
func (c *Client) Show(body jsontext.Value, id string, text *Table) error {
	switch {
	case c.JSON:
		return c.App.PrintJSON(body)
	case c.Quiet:
		_, err := fmt.Fprintln(c.App.Stdout, id)
		return err
	default:
		return c.App.Print(text)
	}
}
