package spill

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	webhook = "whsec_Pj8+Pz4/Pj8+Pz4/Pj8+Pz4/Pj8+Pz4/Pj8+Pz4/Pj8="
	jwt     = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJjbGlfMSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZS1zaWduYXR1cmUtMTIzNDU"
)

// Each way of writing a secret is found, wherever it begins, and nothing else is.
func TestFound(t *testing.T) {
	var r Registry
	r.Add("the webhook's", webhook)
	r.Add("the token", jwt)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(webhook, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	backwards := []byte(jwt)
	for i, j := 0, len(backwards)-1; i < j; i, j = i+1, j-1 {
		backwards[i], backwards[j] = backwards[j], backwards[i]
	}
	asJSON, err := json.Marshal(map[string]string{"secret": webhook}, jsontext.EscapeForHTML(true))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plain": webhook, "the token": jwt, "its signature alone": jwt[strings.LastIndexByte(jwt, '.')+1:], "base64 alone": strings.TrimPrefix(webhook, "whsec_"),
		"without padding": strings.TrimRight(strings.TrimPrefix(webhook, "whsec_"), "="), "bytes": string(raw), "hex": hex.EncodeToString(raw), "HEX": strings.ToUpper(hex.EncodeToString(raw)),
		"hex of the text": hex.EncodeToString([]byte(webhook)), "in a URL": "/?secret=" + url.QueryEscape(webhook), "JSON": string(asJSON), "JSON with slashes": strings.ReplaceAll(webhook, "/", `\/`),
		"backwards": string(backwards), "base64url": base64.URLEncoding.EncodeToString(raw),
	} {
		for _, before := range []string{"", "a", "ab", "abc"} {
			if len(r.Found(before+text+before)) == 0 {
				t.Errorf("%s behind %q is not found", name, before)
			}
		}
	}
	for _, before := range []string{"", "a", "ab", "abc"} {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			for _, text := range []string{webhook, jwt, string(raw)} {
				if len(r.Found(encoding.EncodeToString([]byte(before+text+" and more")))) == 0 {
					t.Errorf("%q in base64 behind %q is not found", text, before)
				}
			}
		}
	}
	for _, text := range []string{"", "whsec_", jwt[:30], webhook[:15], strings.Repeat("a", 1000), base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0}, 100))} {
		if found := r.Found(text); len(found) > 0 {
			t.Errorf("%q has %q", text, found)
		}
	}
	if r.Add("again", jwt); r.Len() != 2 {
		t.Errorf("%d secrets", r.Len())
	}
}

// A secret that stands across two pieces of a stream is found; an error of the stream is
// no reason to say that nothing is there.
func TestFoundIn(t *testing.T) {
	var r Registry
	r.Add("the token", jwt)
	found, err := r.FoundIn(iotest.OneByteReader(strings.NewReader("before " + jwt + " behind")))
	if err != nil || len(found) == 0 {
		t.Errorf("%q, %v", found, err)
	}
	broken := io.MultiReader(strings.NewReader(jwt), iotest.ErrReader(io.ErrUnexpectedEOF))
	if found, err = r.FoundIn(broken); err == nil || len(found) == 0 {
		t.Errorf("%q, %v", found, err)
	}
}
