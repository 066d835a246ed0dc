package input

import (
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/handlers/problem"
)

// HeaderBytes is the size of the headers as HTTP/1.1 spells them.
func HeaderBytes(req *http.Request) int {
	n := len("Host: \r\n") + len(req.Host)
	for name, values := range req.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}

// singleHeaders may stand once; a proxy and this server could otherwise each
// take another one for the truth (interface §7).
var singleHeaders = []string{"Content-Type", "Content-Encoding", "Traceparent"}

// CheckSingleHeaders refuses a header that stands twice and may not.
func CheckSingleHeaders(req *http.Request) error {
	for _, name := range singleHeaders {
		if len(req.Header[name]) > 1 {
			return tollgate.Invalid(name, "The header %s may stand once.", name)
		}
	}
	if len(req.Header["Idempotency-Key"]) > 1 {
		return keyInvalid("The header Idempotency-Key may stand once.")
	}
	return nil
}

// CheckAccept refuses a client that can read neither JSON nor one of the other
// media types that a route answers with. An absent header accepts
// everything (RFC 9110 §12.5.1); an element that cannot be parsed, nothing.
func CheckAccept(req *http.Request, others ...string) error {
	list := strings.Join(req.Header["Accept"], ",")
	if strings.TrimSpace(list) == "" {
		return nil
	}
	for element := range strings.SplitSeq(list, ",") {
		media, params, err := mime.ParseMediaType(element)
		if err != nil {
			continue
		}
		if q, ok := params["q"]; ok {
			if weight, err := strconv.ParseFloat(q, 64); err != nil || weight <= 0 {
				continue
			}
		}
		switch media {
		case "*/*", "application/*", "application/json", "application/problem+json":
			return nil
		}
		if slices.Contains(others, media) {
			return nil
		}
	}
	return problem.New(tollgate.CodeNotAcceptable, "Answers are application/json, errors application/problem+json.")
}

// checkContentType holds a body to one media type; JSON is UTF-8 (RFC 8259 §8.1).
func checkContentType(req *http.Request, want string) error {
	header := req.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(header)
	charset, named := params["charset"]
	wrong := err != nil || media != want || (named && !strings.EqualFold(charset, "utf-8")) || len(params) > 1 || (len(params) == 1 && !named)
	if encoding := req.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		wrong = true
	}
	if wrong {
		return &tollgate.Error{
			Code: tollgate.CodeMediaTypeUnsupported, Param: "Content-Type",
			Message: fmt.Sprintf("The body of this request is %s in UTF-8, without a content encoding.", want),
		}
	}
	return nil
}

// Matches compares weakly, as If-None-Match does (RFC 9110 §13.1.2).
func Matches(headers []string, etag string) bool {
	for element := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		element = strings.TrimSpace(element)
		if element == "*" || strings.TrimPrefix(element, "W/") == etag {
			return true
		}
	}
	return false
}

// ParseTraceparent reads the header (W3C Trace Context §3.2); ok is false for one
// that is to be ignored.
func ParseTraceparent(s string) (trace, flags string, ok bool) {
	part := strings.Split(s, "-")
	if len(part) < 4 || !lowerHex(part[0], 2) || part[0] == "ff" || (part[0] == "00" && len(part) != 4) ||
		!lowerHex(part[1], 32) || strings.Trim(part[1], "0") == "" ||
		!lowerHex(part[2], 16) || strings.Trim(part[2], "0") == "" || !lowerHex(part[3], 2) {
		return "", "", false
	}
	return part[1], part[3], true
}

func lowerHex(s string, length int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == length && strings.ToLower(s) == s
}

// KeyUse is what a route does with Idempotency-Key (interface §4).
type KeyUse int

// A route ignores the key, takes one, or needs one.
const (
	keyIgnored KeyUse = iota
	KeyAccepted
	KeyRequired
)

// IdempotencyKey is the key of a request as it counts, empty when there is
// none (interface §4). That the header stands once is checked before.
func IdempotencyKey(h http.Header, use KeyUse) (string, error) {
	headers := h["Idempotency-Key"]
	switch {
	case use == keyIgnored || (use == KeyAccepted && len(headers) == 0):
		return "", nil
	case len(headers) == 0:
		return "", &tollgate.Error{
			Code: tollgate.CodeIdempotencyKeyRequired, Param: "Idempotency-Key",
			Message: "This request needs the header Idempotency-Key, so that it can be repeated without being carried out twice.",
		}
	}
	return parseIdempotencyKey(headers[0])
}

// parseIdempotencyKey makes one key of the IETF form with quotes and the bare
// form.
func parseIdempotencyKey(text string) (string, error) {
	key := text
	if len(key) >= 2 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	ok := len(key) >= 1 && len(key) <= 255
	for i := 0; ok && i < len(key); i++ {
		ok = key[i] > ' ' && key[i] < 0x7f
	}
	if !ok {
		return "", keyInvalid("An Idempotency-Key has 1 to 255 visible ASCII characters.")
	}
	return key, nil
}

func keyInvalid(message string) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeIdempotencyKeyInvalid, Param: "Idempotency-Key", Message: message}
}
