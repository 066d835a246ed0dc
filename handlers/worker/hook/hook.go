// Package hook posts to URLs that the operator has set, such as the payout step's. They
// may be plain http and lead to private addresses. Redirects are not followed, and no
// proxy of the environment is used.
package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Hook is one URL. It is safe for concurrent use.
type Hook struct {
	url    string
	client *http.Client
	agent  string
}

// New checks a URL: an absolute http or https URL without user info. what names it in
// the error, such as "the payout URL".
func New(address, what, version string) (*Hook, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%s is an absolute http or https URL without user info", what)
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &Hook{
		url: u.String(), agent: "Tollgate/" + version,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 32,
				IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Post sends a body with these headers. The caller closes the body of the answer. The
// error does not name the URL, whose query may be a secret.
func (h *Hook) Post(ctx context.Context, headers map[string]string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", h.agent)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := h.client.Do(req)
	if named, ok := errors.AsType[*url.Error](err); ok {
		err = named.Err
	}
	return resp, err
}
