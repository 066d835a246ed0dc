// Package console is a page for people, on the machine of whoever looks at it: files,
// and the API, asked with that person's own key. The service itself has no sessions,
// cookies or passwords.
package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"tollgate"
)

// Home is where the page is.
const Home = "/console"

// minToken is how many characters a token has at least: 128 bit in hex.
const minToken = 32

// Config is what a console is made of.
type Config struct {
	// API sends a request, whose URL is a path and a query, with an access token. An
	// answer that is no success is no error.
	API func(*http.Request) (*http.Response, error)
	// Identity says who the console is to the API.
	Identity func(context.Context) (Identity, error)
	// Rules are all versions that a payment can cite, as JSON objects.
	Rules func(context.Context) (any, error)
	// Backtest prices past tickets again; the result is a JSON object.
	Backtest func(context.Context, Backtest) (any, error)

	Clock   func() time.Time // real time
	Write   bool             // whether it may change anything
	Token   string           // who has it may look; of its printed address
	Addr    string           // host:port on which it listens
	APIURL  string           // for people
	Version string           // of the program
}

// Identity is a client of the API.
type Identity struct {
	ClientID       string   `json:"client_id"`
	OrganizationID *string  `json:"organization_id"` // nil: the token does not say
	Scopes         []string `json:"scopes"`
}

// Backtest is a candidate that takes a rule's place in past tickets.
type Backtest struct {
	Rule     string `json:"rule"`          // the citation of the candidate, or
	Module   []byte `json:"module_base64"` // its bytes
	Replaces string `json:"replaces"`      // the citation of the rule whose place it takes

	MerchantAccountID string           `json:"merchant_account_id"`
	CreatedAfter      tollgate.Instant `json:"created_after"`
	CreatedBefore     tollgate.Instant `json:"created_before"`
}

// Console answers everything at and below Home.
type Console struct {
	Config
	port   string
	cookie string
	files  map[string]*file
	api    *http.ServeMux
}

// New makes a console.
func New(c Config) (*Console, error) {
	if len(c.Token) < minToken {
		return nil, fmt.Errorf("console: a token has at least %d characters", minToken)
	}
	_, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	files, err := readFiles()
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	console := &Console{Config: c, port: port, cookie: "tollgate_console_" + port, files: files, api: http.NewServeMux()}
	console.api.HandleFunc("GET "+Home+"/api/session", console.session)
	console.api.HandleFunc("GET "+Home+"/api/rules", console.rules)
	console.api.HandleFunc("GET "+Home+"/api/rules/{rule_id}/source", console.source)
	console.api.HandleFunc("GET "+Home+"/api/modules/{rule_id}", console.module)
	console.api.HandleFunc("POST "+Home+"/api/backtest", console.backtest)
	console.api.HandleFunc(Home+"/api/v1/", console.proxy)
	for _, path := range []string{"/api/", "/api", "/api/v1"} { // the last two would be redirected
		console.api.HandleFunc(Home+path, func(w http.ResponseWriter, _ *http.Request) { refuse(w, nothingHere) })
	}
	return console, nil
}

// URL is the address to open: who has it may look.
func (c *Console) URL() string {
	host, _, _ := net.SplitHostPort(c.Addr)
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, c.port) + Home + "?token=" + c.Token
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	below, ours := strings.CutPrefix(req.URL.Path, Home)
	forAPI := below == "/api" || strings.HasPrefix(below, "/api/")
	err := c.checkSender(req, forAPI)
	switch {
	case err != nil:
		refuse(w, err)
	case req.URL.Path == "/":
		http.Redirect(w, req, Home, http.StatusSeeOther)
	case !ours || below != "" && below[0] != '/':
		refuse(w, nothingHere)
	case forAPI:
		c.serveAPI(w, req)
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		refuse(w, &Problem{http.StatusMethodNotAllowed, "method_not_allowed", "A file can only be read."})
	case req.URL.Query().Has("token"):
		c.enter(w, req)
	default:
		c.serveFile(w, req, strings.TrimPrefix(below, "/"))
	}
}

// serveAPI answers what only somebody with the token may ask.
func (c *Console) serveAPI(w http.ResponseWriter, req *http.Request) {
	if err := c.checkCookie(req); err != nil {
		refuse(w, err)
		return
	}
	if !plain(req.URL) {
		refuse(w, nothingHere)
		return
	}
	c.api.ServeHTTP(w, req)
}

// session tells the page what it is part of.
func (c *Console) session(w http.ResponseWriter, req *http.Request) {
	who, err := c.Identity(req.Context())
	if err != nil {
		refuse(w, unreachable(err))
		return
	}
	sandbox, err := c.sandbox(req.Context())
	if err != nil {
		refuse(w, unreachable(err))
		return
	}
	exponents := map[tollgate.Currency]int{}
	for _, currency := range tollgate.Currencies() {
		exponents[currency] = currency.Exponent()
	}
	who.Scopes = append([]string{}, who.Scopes...)
	answer(w, struct {
		Identity
		Write     bool                      `json:"write"`
		API       string                    `json:"api"`
		Version   string                    `json:"version"`
		Sandbox   bool                      `json:"sandbox"`
		Exponents map[tollgate.Currency]int `json:"exponents"`
	}{who, c.Write, c.APIURL, c.Version, sandbox, exponents})
}

// sandbox is whether the API is one: only there is a clock that can be moved.
func (c *Console) sandbox(ctx context.Context) (bool, error) {
	response, err := c.ask(ctx, http.MethodGet, "/v1/sandbox/clock")
	if err != nil {
		return false, err
	}
	response.Body.Close()
	return response.StatusCode != http.StatusNotFound, nil
}

// ask sends a request of the console's own.
func (c *Console) ask(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, path, nil)
	if err != nil {
		return nil, err
	}
	return c.API(req)
}

// unreachable is what to say of an API that gives no answer, if err does not say.
func unreachable(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return &Problem{http.StatusBadGateway, "api_unreachable", fmt.Sprintf("The API does not answer: %v.", err)}
}
