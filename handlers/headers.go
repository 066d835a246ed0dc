package handlers

import (
	"crypto/sha256"
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

// headerBytes is the size of the headers as HTTP/1.1 spells them.
func headerBytes(req *http.Request) int {
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

func checkSingleHeaders(req *http.Request) error {
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

// checkAccept refuses a client that can read neither JSON nor one of the other
// media types that a route answers with. An absent header accepts
// everything (RFC 9110 §12.5.1); an element that cannot be parsed, nothing.
func checkAccept(req *http.Request, others ...string) error {
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

// matches compares weakly, as If-None-Match does (RFC 9110 §13.1.2).
func matches(headers []string, etag string) bool {
	for element := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		element = strings.TrimSpace(element)
		if element == "*" || strings.TrimPrefix(element, "W/") == etag {
			return true
		}
	}
	return false
}

// continueTrace answers a valid traceparent with the same trace and a span of
// our own (W3C Trace Context §3.2); any other is ignored, as it asks.
func (c *call) continueTrace() {
	headers := c.request.Header["Traceparent"]
	if len(headers) != 1 {
		return
	}
	trace, flags, ok := parseTraceparent(headers[0])
	if !ok {
		return
	}
	span := sha256.Sum256([]byte(c.id)) // as unique as the request's id
	c.trace = trace
	c.Header().Set("Traceparent", "00-"+trace+"-"+hex.EncodeToString(span[:8])+"-"+flags)
}

func parseTraceparent(s string) (trace, flags string, ok bool) {
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
