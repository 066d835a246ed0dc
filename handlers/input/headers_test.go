package input

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"tollgate"
)

// codeOf is the code in an error, empty for none.
func codeOf(err error) tollgate.Code {
	e, _ := errors.AsType[*tollgate.Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}

// headerRequest is a request with one header.
func headerRequest(name string, values ...string) *http.Request {
	return &http.Request{Header: http.Header{name: values}}
}

func TestIdempotencyKey(t *testing.T) {
	for text, want := range map[string]string{
		"a": "a", `"a"`: "a", `""a""`: `"a"`, `"`: `"`, `a"`: `a"`, `"a`: `"a`,
		strings.Repeat("k", 255): strings.Repeat("k", 255), `"` + strings.Repeat("k", 255) + `"`: strings.Repeat("k", 255),
	} {
		if got, err := parseIdempotencyKey(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", `""`, " ", "a b", "a\t", "a\x00", "\x7f", "é", strings.Repeat("k", 256)} {
		if _, err := parseIdempotencyKey(text); codeOf(err) != tollgate.CodeIdempotencyKeyInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	f.Add("a")
	f.Add(`"a"`)
	f.Add(`""`)
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parseIdempotencyKey(text)
		if err != nil {
			return
		}
		if key == "" || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Fatalf("%q became %q", text, key)
		}
		if again, err := parseIdempotencyKey(`"` + key + `"`); err != nil || again != key {
			t.Fatalf("%q quoted became %q, %v", key, again, err)
		}
	})
}

func TestTraceparent(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for text, ok := range map[string]bool{
		"00-" + trace + "-" + span + "-01":                    true,
		"01-" + trace + "-" + span + "-01-what-comes-later":   true,
		"00-" + trace + "-" + span + "-01-x":                  false,
		"ff-" + trace + "-" + span + "-01":                    false,
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   false,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": false,
		"00-" + trace + "-" + span:                            false,
		"00-" + trace + "-" + span + "-1":                     false,
		"00-" + trace[:31] + "g-" + span + "-01":              false,
		"":                                                    false,
		"00-" + trace + "-" + span + "-01\r\nSet-Cookie: a=b": false,
		"00-" + trace + "-" + span[:14] + "é-01":              false,
		" 00-" + trace + "-" + span + "-01":                   false,
		"00-" + trace[:30] + "-" + span + "-01":               false,
		"00-" + trace + "00-" + span + "-01":                  false,
		"000-" + trace + "-" + span + "-01":                   false,
	} {
		got, flags, valid := ParseTraceparent(text)
		if valid != ok || (ok && (got != trace || flags != "01")) {
			t.Errorf("%q: %q %q %t", text, got, flags, valid)
		}
	}
}

func TestAccept(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "*/*": true, "application/*": true, "application/json": true, "application/problem+json": true,
		"text/html, application/json;q=0.1": true, "Application/JSON; charset=utf-8": true, "text/html,*/*;q=0.8": true,
		"text/html": false, "application/json;q=0": false, "application/json;q=0.000": false, "text/*": false,
		"application/xml": false, "nonsense": false, "application/json;q=x": false,
	} {
		err := CheckAccept(headerRequest("Accept", text), "")
		if (err == nil) != ok || (err != nil && codeOf(err) != tollgate.CodeNotAcceptable) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestContentType(t *testing.T) {
	for text, ok := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "application/json;charset=UTF-8": true, "APPLICATION/JSON": true,
		"": false, "text/json": false, "application/json; charset=latin1": false, "application/json; profile=x": false,
		"application/problem+json": false, "application/json, text/plain": false, "application/x-www-form-urlencoded": false,
	} {
		err := checkContentType(headerRequest("Content-Type", text), "application/json")
		if (err == nil) != ok || (err != nil && codeOf(err) != tollgate.CodeMediaTypeUnsupported) {
			t.Errorf("%q: %v", text, err)
		}
	}
	encoded := headerRequest("Content-Type", "application/json")
	encoded.Header.Set("Content-Encoding", "gzip")
	if err := checkContentType(encoded, "application/json"); codeOf(err) != tollgate.CodeMediaTypeUnsupported {
		t.Errorf("gzip: %v", err)
	}
}

func TestIfNoneMatch(t *testing.T) {
	for text, want := range map[string]bool{
		`"1"`: true, `W/"1"`: true, `"0", "1"`: true, "*": true, `"2"`: false, "1": false, "": false,
	} {
		if got := Matches([]string{text}, `"1"`); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestQuery(t *testing.T) {
	for raw, want := range map[string]tollgate.Code{
		"": "", "a=1": "", "a=1&b=2": "", "&a=1&": "", "a=%C3%A9": "",
		"c=1": tollgate.CodeParameterUnknown, "A=1": tollgate.CodeParameterUnknown, "=1": tollgate.CodeParameterUnknown,
		"a=1&a=1": tollgate.CodeParameterInvalid, "a=1&%61=2": tollgate.CodeParameterInvalid, "a": tollgate.CodeParameterInvalid,
		"a=": tollgate.CodeParameterInvalid, "a=%": tollgate.CodeParameterInvalid, "a=%zz": tollgate.CodeParameterInvalid,
		"a=%ff": tollgate.CodeParameterInvalid, "%ff=1": tollgate.CodeParameterInvalid, "a=%00": tollgate.CodeParameterInvalid,
		"a=1;b=2": tollgate.CodeParameterInvalid, "a=%0d%0a": tollgate.CodeParameterInvalid,
	} {
		if _, err := ParseQuery(raw, []string{"a", "b"}); codeOf(err) != want {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
	}
	_, err := ParseQuery("x=1&a=&b=1&b=2", []string{"a", "b"})
	e, _ := errors.AsType[*tollgate.Error](err)
	if e == nil || e.Param != "x" || len(e.Details) != 3 || e.Details[1].Param != "a" || e.Details[2].Param != "b" {
		t.Errorf("%+v", e)
	}
}
