package handlers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What a client has is not made for it again, and what could not be made has no ETag.
func TestNothingIsMadeForWhoHasIt(t *testing.T) {
	const etag = `"1-evt_1"`
	failed := errors.New("it cannot be read")
	for _, x := range []struct {
		known string // If-None-Match
		etag  string
		err   error
		made  bool
	}{
		{"", etag, nil, true},
		{`"1-evt_0"`, etag, nil, true},
		{etag, etag, nil, false},
		{`"0", W/` + etag, etag, nil, false},
		{"*", etag, nil, false},
		{"*", "", nil, true}, // it has none
		{"", etag, failed, true},
	} {
		c := &call{request: httptest.NewRequest(http.MethodGet, "/", nil)}
		if x.known != "" {
			c.request.Header.Set("If-None-Match", x.known)
		}
		made := false
		a, err := c.tagged(x.etag, func() (*answer, error) {
			made = true
			if x.err != nil {
				return nil, x.err
			}
			return &answer{status: http.StatusOK, body: []byte("{}")}, nil
		})
		if made != x.made || !errors.Is(err, x.err) {
			t.Errorf("%q of %s: made %t, %v", x.known, x.etag, made, err)
		}
		if err == nil && (a.status != http.StatusOK || a.etag != x.etag || (len(a.body) > 0) != x.made) {
			t.Errorf("%q of %s: %+v", x.known, x.etag, a)
		}
	}
}
