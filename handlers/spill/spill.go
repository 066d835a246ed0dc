// Package spill finds secrets where they must not be. A test registers every secret that
// its run makes, and has everything looked at that the run wrote: logs, metrics, Redis,
// answers. It is for tests.
package spill

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// shortest is how many bytes a secret has at least: fewer would be found by chance.
const shortest = 16

// Registry has the secrets of a run. The zero value has none. It is safe for concurrent use.
type Registry struct {
	mu    sync.Mutex
	forms map[string][]form // by their first bytes
	known map[string]bool
}

// form is one way of writing a secret.
type form struct{ text, name string }

// Add registers a secret under a name, which is what a finding says of it. Of a JWT the
// signature is searched by itself, of a text in base64 the bytes that it stands for.
func (r *Registry) Add(name, secret string) {
	if len(secret) < shortest {
		panic(fmt.Sprintf("spill: %s has %d bytes", name, len(secret)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[secret] {
		return
	}
	if r.forms == nil {
		r.forms, r.known = make(map[string][]form), make(map[string]bool)
	}
	r.known[secret] = true
	for _, part := range parts(secret) {
		r.add(name, part)
	}
}

// parts are a secret and what of it is one by itself.
func parts(secret string) (list []string) {
	list = append(list, secret)
	if strings.Count(secret, ".") == 2 { // the signature of a JWT is its secret part
		list = append(list, secret[strings.LastIndexByte(secret, '.')+1:])
	}
	text := strings.TrimRight(strings.TrimPrefix(list[len(list)-1], "whsec_"), "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if raw, err := encoding.DecodeString(text); err == nil && len(raw) >= shortest && !slices.Contains(list, string(raw)) {
			list = append(list, string(raw))
		}
	}
	return list
}

// add registers the forms of one text.
func (r *Registry) add(name, text string) {
	put := func(written, as string) {
		if len(written) >= shortest {
			first := written[:shortest]
			r.forms[first] = append(r.forms[first], form{written, name + as})
		}
	}
	put(text, "")
	put(url.QueryEscape(text), " in a URL")
	put(strings.ReplaceAll(text, "/", `\/`), " in JSON")
	put(strings.NewReplacer("+", `\u002b`, "=", `\u003d`, "&", `\u0026`).Replace(text), " in JSON for HTML")
	put(hex.EncodeToString([]byte(text)), " in hex")
	put(strings.ToUpper(hex.EncodeToString([]byte(text))), " in hex")
	backwards := []byte(text)
	slices.Reverse(backwards)
	put(string(backwards), " backwards")
	for before := range 3 { // wherever it stands in a longer text
		put(within(base64.RawStdEncoding, before, text), " in base64")
		put(within(base64.RawURLEncoding, before, text), " in base64")
	}
}

// within is what base64 makes of a text behind so many bytes, without the digits that
// those before and behind it have a part in.
func within(encoding *base64.Encoding, before int, text string) string {
	all := strings.Repeat("\x00", before) + text
	digits := encoding.EncodeToString([]byte(all))
	if len(all)%3 != 0 {
		digits = digits[:len(digits)-1]
	}
	return digits[(before*8+5)/6:]
}

// Found names the secrets that are in a text, and how each is written there.
func (r *Registry) Found(text string) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.forms) == 0 {
		return nil
	}
	for i := 0; i+shortest <= len(text); i++ {
		for _, f := range r.forms[text[i:i+shortest]] {
			if strings.HasPrefix(text[i:], f.text) && !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	return names
}

// FoundIn is Found of a stream, which is read to its end first: a secret may stand across
// two of its pieces.
func (r *Registry) FoundIn(stream io.Reader) ([]string, error) {
	all, err := io.ReadAll(stream)
	return r.Found(string(all)), err
}

// None fails a test that wrote a secret into a text; where says which text that is.
func (r *Registry) None(t testing.TB, where, text string) {
	t.Helper()
	for _, name := range r.Found(text) {
		t.Errorf("%s has a secret: %s", where, name)
	}
}

// Len is how many secrets are registered.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}
