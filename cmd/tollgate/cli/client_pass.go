package cli

import (
	"io"
	"net/http"
	"net/url"
	"time"
)

// passing sends what somebody else has asked for: an answer is a file that takes as
// long as it takes, is left as it came, and leads nowhere else.
var passing = &http.Client{
	Transport:     passingTransport(),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func passingTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout, t.DisableCompression, t.MaxIdleConnsPerHost = requestTimeout, true, 16
	return t
}

// Pass sends a request, whose URL is a path and a query, with a token that is good for
// it, and returns the answer as it comes: a refusal is no error. A token that the
// service does not take any more is replaced once.
func (c *Client) Pass(r *http.Request) (*http.Response, error) {
	base, err := url.Parse(c.Base)
	if err != nil {
		return nil, UsageError(err)
	}
	for again := false; ; again = true {
		token, err := c.Authorization(r.Context())
		if err != nil {
			return nil, err
		}
		request := r.Clone(r.Context())
		request.URL.Scheme, request.URL.Host, request.URL.User, request.Host = base.Scheme, base.Host, base.User, ""
		request.URL.Path, request.URL.RawPath = base.Path+r.URL.Path, ""
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("User-Agent", "tollgate/"+VersionText())
		if r.GetBody != nil {
			if request.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		response, err := c.passing().Do(request)
		if err != nil {
			return nil, UnavailableError(err)
		}
		if response.StatusCode != http.StatusUnauthorized || again || !c.forget(token) {
			return response, nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, MaxAnswer)) // the connection serves the next one
		response.Body.Close()
	}
}

// passing is the client of Pass, with the proofs of this one.
func (c *Client) passing() *http.Client {
	if c.proofs == nil {
		return passing
	}
	p := *passing
	p.Transport = &proving{c.proofs, passing.Transport}
	return &p
}

// forget has the next request fetch a token, where it can, instead of this one.
func (c *Client) forget(token string) bool {
	c.renew.Lock()
	defer c.renew.Unlock()
	if c.JWK == nil {
		return false
	}
	if c.Token == token {
		c.RenewAt = time.Time{}
	}
	return true
}
