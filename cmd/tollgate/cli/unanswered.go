package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// keyLifetime is how long the service knows an idempotency key (interface §4).
// What is older cannot be repeated.
const keyLifetime = 7 * 24 * time.Hour

// Unanswered is a request with an idempotency key whose answer has not come.
// Each is a file of its own, so that processes do not lose each other's.
type Unanswered struct {
	Key     string           `json:"idempotency_key"`
	Command string           `json:"command"` // that repeats it
	URL     string           `json:"url"`
	At      tollgate.Instant `json:"at"`
	SHA256  string           `json:"request_sha256"` // of method, URL, client and body

	// Signature is what in the body no command makes a second time.
	Signature string `json:"signature,omitempty"`

	file string // empty: it could not be kept
	lost bool   // an attempt was sent whose outcome nobody knows
}

// repeatableError is the end of a request that may have been carried out.
type repeatableError struct {
	err     error
	command string
}

func (e *repeatableError) Error() string { return e.err.Error() }
func (e *repeatableError) Unwrap() error { return e.err }

// announce says on standard error under which key a request is about to leave,
// and keeps that in a file until there is an answer. It returns nil for a
// command that cannot be repeated with a key.
func (c *Client) announce(method, path string, body []byte, key string) *Unanswered {
	if c.cmd == nil || c.cmd.Flags().Lookup(KeyFlagName) == nil {
		return nil
	}
	sum := sha256.Sum256(slices.Concat([]byte(method+" "+c.Base+path+"\n"+c.ID+"\n"), body))
	u := &Unanswered{
		Key: key, Command: c.App.repeating(key), URL: c.Base + path, At: tollgate.At(c.App.Clock()), SHA256: hex.EncodeToString(sum[:]),
		Signature: c.Signature,
	}
	fmt.Fprintf(c.App.Stderr, "idempotency key: %s\n", Printable(key))
	dir := c.App.stateDir()
	if dir == "" {
		return u
	}
	if twin := u.twin(dir); twin != nil {
		fmt.Fprintf(c.App.Stderr, "The same request was sent at %s and has no answer yet. This one is another. To repeat that one:\n  %s\n", twin.At, twin.Command)
	}
	if err := u.keep(dir); err != nil {
		fmt.Fprintf(c.App.Stderr, "The key is kept nowhere else: %v\n", err)
	}
	return u
}

// stateDir is where unanswered requests are kept (XDG Base Directory
// Specification); empty when there is no home.
func (a *App) stateDir() string {
	if base, ok := a.Env("XDG_STATE_HOME"); ok && filepath.IsAbs(base) {
		return filepath.Join(base, "tollgate", "unanswered")
	}
	if home, ok := a.Env("HOME"); ok && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "tollgate", "unanswered")
	}
	return ""
}

// keep writes the file before the request leaves. One that is there already is
// of an earlier attempt, in another process.
func (u *Unanswered) keep(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(u, json.Deterministic(true))
	if err != nil {
		return err
	}
	file := keptFile(dir, u.Key)
	if _, err := os.Stat(file); err == nil {
		u.lost = true
	}
	if err := ReplaceFile(file, append(text, '\n')); err != nil {
		return err
	}
	u.file = file
	return nil
}

func keptFile(dir, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, hex.EncodeToString(sum[:8])+".json")
}

// Kept is the unanswered request of a key; nil when none is kept.
func (a *App) Kept(key string) *Unanswered {
	dir := a.stateDir()
	if key == "" || dir == "" {
		return nil
	}
	text, err := os.ReadFile(keptFile(dir, key))
	u := new(Unanswered)
	if err != nil || json.Unmarshal(bytes.TrimSpace(text), u) != nil || u.Key != key {
		return nil
	}
	return u
}

// twin is an unanswered request that asked the same under another key. What
// nobody can repeat any more is removed.
func (u *Unanswered) twin(dir string) (found *Unanswered) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		file := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it was answered meanwhile
		}
		other := new(Unanswered)
		if err := json.Unmarshal(bytes.TrimSpace(text), other); err != nil || other.At.Time().Add(keyLifetime).Before(u.At.Time()) {
			if info, err := entry.Info(); err == nil && info.ModTime().Add(keyLifetime).Before(u.At.Time()) {
				_ = os.Remove(file)
			}
			continue
		}
		if other.SHA256 == u.SHA256 && other.Key != u.Key {
			found = other
		}
	}
	return found
}

// attempted notes an attempt whose outcome nobody knows.
func (u *Unanswered) attempted(err error) {
	if u == nil || err == nil {
		return
	}
	var refused *Refusal
	if errors.As(err, &refused) {
		u.lost = u.lost || refused.Retriable()
		return
	}
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" { // else nothing was sent
		u.lost = true
	}
}

// ended takes the end of a request. The file goes when it is known what became
// of the request; else it stays, and the error says how to repeat it.
func (u *Unanswered) ended(err error) error {
	if u == nil {
		return err
	}
	if err != nil && u.open(err) {
		return &repeatableError{err, u.Command}
	}
	if u.file != "" {
		_ = os.Remove(u.file)
	}
	return err
}

// open reports whether the request may have been carried out in spite of an
// error. A refusal says no, unless an earlier attempt was lost and this one did
// not get as far as the key.
func (u *Unanswered) open(err error) bool {
	var refused *Refusal
	switch {
	case !errors.As(err, &refused), refused.Status >= 500,
		refused.Status == http.StatusUnauthorized, refused.Status == http.StatusTooManyRequests:
		return u.lost
	case refused.Status == http.StatusForbidden:
		return u.lost && refused.Code != tollgate.CodePerimeterDenied
	}
	return false
}

// secretFlags take what must not stand in a file or a log.
var secretFlags = []string{"token", "client-jwk", "rule-key"}

// pinnedFlag is a flag as the request was made with it, in the place of what was
// given. Without a value it is one that is said or not.
type pinnedFlag struct{ name, value string }

// Pin has the command that repeats the request say what it was made of, where
// running the same command later would find something else: a time instead of
// how long ago, or what was asked for at the terminal.
func (a *App) Pin(name, value string) { a.pinned = append(a.pinned, pinnedFlag{name, value}) }

// pinnedIn puts the flag into arguments.
func (p pinnedFlag) pinnedIn(args []string) []string {
	end := endOfFlags(args)
	flag, given := "--"+p.name, false
	for i := 0; i < end; i++ {
		switch {
		case args[i] == flag && p.value == "":
			return args
		case args[i] == flag && i+1 < end:
			i++
			args[i], given = p.value, true
		case strings.HasPrefix(args[i], flag+"="):
			args[i], given = flag+"="+p.value, true
		}
	}
	switch {
	case given:
		return args
	case p.value == "":
		return slices.Insert(args, end, flag)
	}
	return slices.Insert(args, end, flag, p.value)
}

// endOfFlags is where in arguments no flag follows any more.
func endOfFlags(args []string) int {
	if i := slices.Index(args, "--"); i >= 0 {
		return i
	}
	return len(args)
}

// repeating is the command as it was given, with what is pinned and the key.
func (a *App) repeating(key string) string {
	args := slices.Clone(a.args)
	for _, p := range append(slices.Clone(a.pinned), pinnedFlag{KeyFlagName, key}) {
		args = p.pinnedIn(args)
	}
	words := []string{ShellQuote(a.Program)}
	secret := "" // the flag whose value comes next
	for _, word := range args {
		name, _, inline := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		isSecret := strings.HasPrefix(word, "--") && slices.Contains(secretFlags, name)
		switch {
		case secret != "":
			word = secretVariable(secret)
		case isSecret && inline:
			word = "--" + name + "=" + secretVariable(name)
		default:
			word = ShellQuote(word)
		}
		words = append(words, word)
		if secret = ""; isSecret && !inline {
			secret = name
		}
	}
	return strings.Join(words, " ")
}

// secretVariable is the variable of a flag, to be expanded by a shell.
func secretVariable(flag string) string { return `"$` + setting{Flag: flag}.Env() + `"` }
