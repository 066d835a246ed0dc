package handlers_test

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollgate"
	"tollgate/rediskv"
)

// wire is how a store reaches Redis, and notes the commands that are sent.
type wire struct {
	mu       sync.Mutex
	commands []string
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &notedConn{Conn: conn, wire: w}, err
}

// notedConn has each command noted before it is sent.
type notedConn struct {
	net.Conn
	wire *wire
	rest []byte // of a command whose end has not been written yet
}

func (c *notedConn) Write(b []byte) (int, error) {
	c.rest = append(c.rest, b...)
	for {
		text := bytes.NewReader(c.rest)
		r := bufio.NewReader(text)
		v, err := readReply(r)
		if err != nil {
			return c.Conn.Write(b)
		}
		c.wire.note(words(v))
		c.rest = c.rest[len(c.rest)-text.Len()-r.Buffered():]
	}
}

// unrelated are commands that open connections, and that a store sends by itself now
// and then.
var unrelated = []string{"hello", "client", "auth", "select", "info", "hgetall history"}

// note keeps a command by its name, a script by its digest, too.
func (w *wire) note(command []string) {
	name := strings.ToLower(command[0])
	switch {
	case name == "evalsha" || name == "eval":
		name += " " + command[1]
	case len(command) > 1 && strings.HasSuffix(command[1], ":history"):
		name += " history"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, name)
}

// of are the commands that were sent meanwhile.
func (w *wire) of(do func()) []string {
	w.mu.Lock()
	w.commands = nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.commands) // some are on their way at once
	return slices.DeleteFunc(w.commands, func(name string) bool { return slices.Contains(unrelated, name) })
}

// onTheWire has the suite's server on a store whose commands are noted.
func (s *suite) onTheWire() *wire {
	s.t.Helper()
	w := new(wire)
	s.store = openWith(s.t, rediskv.Options{URL: s.redis, Clock: s.service, Dial: w.dial})
	s.serve()
	return w
}

var requestID = regexp.MustCompile(`req_[0-9a-z]+`)

// looks is what can be seen of an answer, and how Redis was asked for it.
func (s *suite) looks(w *wire, own string, do func() reply) string {
	s.t.Helper()
	var r reply
	commands := w.of(func() { r = do() })
	var lines []string
	for name, values := range r.Header {
		if name != "Date" && name != "Request-Id" {
			lines = append(lines, name+": "+strings.Join(values, ","))
		}
	}
	slices.Sort(lines)
	text := strings.ReplaceAll(requestID.ReplaceAllString(r.text, "req_"), own, "its id")
	return r.Status + "\n" + strings.Join(lines, "\n") + "\n" + text + "\nasked Redis: " + strings.Join(commands, ", ")
}

// missing is an id of the same form as another one, of nothing; which is a letter.
func missing(id, which string) string {
	if name, ok := strings.CutPrefix(id, tollgate.PrefixRule); ok {
		return tollgate.PrefixRule + which + name
	}
	at := len(id) - 12 // its end says what kind of part it is
	return id[:at] + strings.Repeat(which, 3) + id[at+3:]
}

// TestRefusalsThatMustLookAlike: an object of another organization cannot be told from
// one that is not there, nor a client that exists from one that does not: same answer,
// same headers, and the same commands to Redis, so the same time. Signatures are counted
// in package auth (TestVerificationsOfARefusal).
func TestRefusalsThatMustLookAlike(t *testing.T) {
	s := newSuite(t, "second")
	w := s.onTheWire()
	stranger := "Bearer " + s.world.token("other_all", "")
	s.want(s.call("GET", "/v1/organizations/"+s.vars["other_org"], "", "Authorization", stranger), 200, "")
	compared := 0
	for _, o := range s.operations {
		route := s.route(o)
		if route.Scope == "" {
			continue
		}
		for _, id := range []string{o.pathID, s.vars["eur"], s.vars["client_shop"]} {
			path, body := o.path, o.text(nil)
			if id == "" || !strings.Contains(path+body, id) || slices.Contains(lists, o.id) {
				continue
			}
			ask := func(id, other string) string {
				there := *o
				there.path, there.form = strings.ReplaceAll(path, id, other), strings.ReplaceAll(body, id, other)
				return s.looks(w, other, func() reply { return s.ask(&there, "alike", stranger) })
			}
			ask(id, missing(id, "a")) // scripts are loaded, and configuration is read
			foreign, unknown := ask(id, id), ask(id, missing(id, "b"))
			if foreign != unknown { // each of them makes the record longer, which some read page by page
				foreign = ask(id, id)
			}
			if compared++; foreign != unknown {
				t.Errorf("%s %s: another's:\n%s\nnobody's:\n%s", route.Method, route.Path, foreign, unknown)
			}
		}
	}
	if compared < 40 {
		t.Errorf("only %d pairs were compared", compared)
	}
}

// lists are operations that take the id of an account as a filter, and find nothing.
var lists = []string{"moveClock"}

// TestClientsThatMustLookAlike: who has no key of a client does not learn whether there
// is one.
func TestClientsThatMustLookAlike(t *testing.T) {
	s := newSuite(t, append([]string{"second"}, enders...)...)
	s.end()
	w := s.onTheWire()
	for _, o := range s.operations {
		path := s.route(o).Path
		if !strings.HasPrefix(path, "/oauth2/") {
			continue
		}
		as := func(client string) string {
			assertion := s.forged("second", func(c map[string]any) { c["iss"], c["sub"] = client, client })
			return s.looks(w, client, func() reply { return s.askAs(path, o.form, "client_assertion="+assertion) })
		}
		as("cli_nobody")
		unknown := as("cli_nobody_else")
		for _, name := range []string{"client_kiosk", "client_disabled client", "client_removed key", "other_client_kiosk"} {
			for _, contact := range []string{"first", "second"} {
				if known := as(s.vars[name]); known != unknown {
					t.Errorf("%s, %s, %s contact:\n%s\nnobody's:\n%s", path, name, contact, known, unknown)
				}
			}
		}
	}
}
