package delivery

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tollgate"
)

const (
	keptBody    = 4 << 10 // interface §6
	keptHeaders = 32
	keptHeader  = 1 << 10 // bytes of a value
	// longestBody is how much of an answer is waited for; the rest after
	// keptBody is dropped. An answer that goes on is one that does not end.
	longestBody = 1 << 20
)

var (
	errEndless  = errors.New("endless answer")
	errEncoded  = errors.New("encoded answer")
	errNoStatus = errors.New("no final status")
)

// readAnswer keeps the beginning of an answer and reads on to its end, so that
// one that breaks off is noticed and the connection can be used again. What was
// read is returned with the error too.
func readAnswer(resp *http.Response) (*tollgate.AttemptResponse, error) {
	a := &tollgate.AttemptResponse{StatusCode: resp.StatusCode, Headers: keepHeaders(resp.Header)}
	if resp.StatusCode < 200 || resp.StatusCode > 599 {
		return a, errNoStatus // 101 Switching Protocols has no body to read
	}
	kept, err := io.ReadAll(io.LimitReader(resp.Body, keptBody))
	if err == nil && len(kept) == keptBody {
		var rest int64
		rest, err = io.Copy(io.Discard, io.LimitReader(resp.Body, longestBody-keptBody))
		a.Truncated = rest > 0
		if err == nil && rest == longestBody-keptBody {
			err = errEndless
		}
	}
	if encoded(resp.Header) && len(kept) > 0 {
		// Not what was asked for, and never inflated: a short one is taken unread,
		// a long one may be a bomb.
		if err == nil && a.Truncated {
			err = errEncoded
		}
		a.Truncated = true
		return a, err
	}
	text := strings.ToValidUTF8(string(kept), "\uFFFD")
	a.Body = cutText(text, keptBody)
	a.Truncated = a.Truncated || len(a.Body) < len(text)
	return a, err
}

func encoded(h http.Header) bool {
	encoding := h.Get("Content-Encoding")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// keepHeaders keeps the first headers in the order of their names.
func keepHeaders(h http.Header) map[string]string {
	kept := make(map[string]string, min(len(h), keptHeaders))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if len(kept) == keptHeaders {
			break
		}
		kept[cutText(name, keptHeader)] = cutText(strings.Join(h[name], ", "), keptHeader)
	}
	return kept
}

// cutText makes valid UTF-8 of at most max bytes.
func cutText(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// RetryAfter reads the header in both its forms (RFC 9110 §10.2.3); zero for
// none, for nonsense and for a time that has passed.
func RetryAfter(text string, now time.Time) time.Duration {
	const longest = 366 * 24 * time.Hour
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(longest/time.Second) {
			return longest
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longest)
}
