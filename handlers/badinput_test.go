package handlers_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
)

// bad is a request with exactly one thing wrong, and how it must be refused.
type bad struct {
	name         string
	method, path string
	body         string
	headers      []string
	status       int
	code, param  string
	leaves       trace
}

// trace is what a request leaves in Redis when it is refused (interface §5).
type trace int

const (
	auditEntry trace = iota // one entry: a known client was refused
	count                   // one more of the refusals of somebody unknown
	nothing                 // it is not refused
)

// refusal is the table of what each refusal leaves: who is refused before it
// is known who asks is counted, by the reason.
func (o *operation) refusal(code string) trace {
	switch code {
	case "uri_too_long", "headers_too_large", "not_acceptable", "method_not_allowed", "token_missing":
		return count
	}
	if o.scoped {
		return auditEntry
	}
	return count
}

// TestBadInput takes every parameter of every operation through everything
// that can be wrong with it. Each is refused with the listed code, a message
// and the parameter's name, and the keyspace stays as it was, byte for byte.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, redistest.URL(t), newRecorder(t))
	operations := w.operations()
	covered(t, operations)
	w.token("all", "")
	w.call("GET", "/v1/grants/"+w.vars["grant_all"], "") // fills caches, which writes an audit entry
	w.ready()
	requests := 0
	faults := make([][]bad, len(operations)) // some take tokens of their own
	for n, o := range operations {
		faults[n] = slices.Concat(o.badPaths(), o.badQueries(), o.badHeaders(), o.badBodies())
	}
	before := dump(t, w.redis)
	beside := maps.Clone(before)
	for n, o := range operations {
		all := faults[n]
		w.forget(before, beside)
		var names []string
		var traces []trace
		for i, b := range all {
			requests++
			name := o.id + ": " + b.name
			r, err := w.try(w.request(b.method, b.path, b.body, b.headers...))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			code, _ := r.body["code"].(string)
			param, _ := r.body["param"].(string)
			message, _ := r.body["message"].(string)
			if r.StatusCode != b.status || code != b.code || param != b.param || message == "" {
				t.Errorf("%s\n\t%s %.300s\n\t%.300s\n\tanswered %d %.600s\n\twant %d %s %s", name, b.method, b.path, b.body, r.StatusCode, r.text, b.status, b.code, b.param)
			}
			if names, traces = append(names, name), append(traces, b.leaves); len(traces) == together || i == len(all)-1 {
				after := dump(t, w.redis)
				if changes := w.left(before, after, traces); len(changes) > 0 {
					t.Errorf("one of\n\t%s\nwrote: %s", strings.Join(names, "\n\t"), strings.Join(changes, "\n\t"))
				}
				before, names, traces = after, nil, nil
			}
		}
	}
	t.Logf("%d requests", requests)
	// Without the fault each of them works, so the faults were what was refused.
	for _, o := range operations {
		if o.id == "readAuditProof" { // its entry was trimmed above
			continue
		}
		w.store.Beat(t.Context()) // as an instance that runs does each second
		if r := w.call(o.method, o.path, o.text(nil), o.headers()...); r.StatusCode >= 300 {
			t.Errorf("%s: the request without a fault: %d %s", o.id, r.StatusCode, r.text)
		}
	}
}

// together is how many requests are made between two looks at the keyspace,
// which cost more than they do.
const together = 100

// forget takes away what earlier refusals have left in a keyspace, which would be read
// and compared again and again: the entries of the audit record, and the mark of each,
// which would expire. What was there beside them stays.
func (w *world) forget(have, beside keyspace) {
	w.t.Helper()
	marks := []string{"DEL"}
	for key := range have {
		switch {
		case strings.HasSuffix(key, ":audit"):
			check(w.t, command(w.t, w.redis, "XTRIM", key, "MAXLEN", "0"))
			have[key] = "stream "
		case strings.Contains(key, ":op:") && beside[key] == "":
			marks = append(marks, key)
			delete(have, key)
		}
	}
	if len(marks) > 1 { // of one organization, and so in one slot
		check(w.t, command(w.t, w.redis, marks...))
	}
}

// left lists what requests have written that their refusals may not. Counting
// strangers is best effort: once it was too slow, it may be missing or late.
func (w *world) left(before, after keyspace, may []trace) []string {
	uncounted := strings.Contains(w.log.String(), "refusal not counted")
	audited, strangers := 0, 0
	for _, t := range may {
		switch t {
		case auditEntry:
			audited++
		case count:
			strangers++
		}
	}
	if !uncounted && audited+strangers == 0 {
		return before.changes(after)
	}
	changes := before.without().changes(after.without())
	entries := len(after.stream(":audit")) - len(before.stream(":audit"))
	if entries != audited {
		changes = append(changes, fmt.Sprintf("%d entries in the audit record, not %d", entries, audited))
	}
	if counted := after.refusals("") - before.refusals(""); counted != strangers && !uncounted {
		changes = append(changes, fmt.Sprintf("%d strangers were counted, not %d", counted, strangers))
	}
	return changes
}

// refused makes one bad request of an operation that is otherwise in order.
func (o *operation) refused(name string, status int, code, param string) bad {
	return bad{
		name: name, method: o.method, path: o.path, body: o.text(nil), headers: o.headers(),
		status: status, code: code, param: param, leaves: o.refusal(code),
	}
}

// badPaths: whatever is no identifier is not found, and so is one of another
// kind or of nothing.
func (o *operation) badPaths() (list []bad) {
	if o.pathID == "" {
		return nil
	}
	for name, id := range map[string]string{
		"NUL": "%00", "NUL behind": o.pathID + "%00", "bad UTF-8": "%ff", "overlong": "%c0%af", "umlaut": "%C3%BC", "space": "%20",
		"plus": "a+b", "dot": "a.b", "slash": "a%2Fb", "double": "%252e", "too long": strings.Repeat("a", 65), "huge": strings.Repeat("a", 3000),
		"star": "*", "quote": "%22", "newline": "a%0Ab", "brace": "%7Bpayment_id%7D", "unknown": o.pathID[:strings.IndexByte(o.pathID, '_')+1] + strings.Repeat("0", 26),
		"other kind": "req_" + strings.Repeat("0", 26), "no prefix": strings.Repeat("0", 26), "upper case": strings.ToUpper(o.pathID), "64": strings.Repeat("a", 64),
		"semicolon": o.pathID + ";a=1", "key": "seq",
	} {
		b := o.refused("path "+name, http.StatusNotFound, "not_found", "")
		b.path = strings.Replace(o.path, o.pathID, id, 1)
		if name == "slash" { // it is no address at all
			b.leaves = count
		}
		list = append(list, b)
	}
	return list
}

// badQueries: names that are not there, and everything wrong with those that
// are.
func (o *operation) badQueries() (list []bad) {
	add := func(name, query, code, param string) {
		b := o.refused("query "+name, http.StatusBadRequest, code, param)
		b.path += "?" + query
		list = append(list, b)
	}
	add("unknown", "expand=payment", "parameter_unknown", "expand")
	add("unknown and empty", "x=", "parameter_unknown", "x")
	add("unknown and bare", "x", "parameter_unknown", "x")
	add("unknown in brackets", "filter%5Bstatus%5D=a", "parameter_unknown", "filter[status]")
	add("no name", "=1", "parameter_unknown", "")
	add("bad UTF-8 name", "%ff=1", "parameter_invalid", "query")
	add("bad escape in the name", "%zz=1", "parameter_invalid", "query")
	add("long name", strings.Repeat("n", 1000)+"=1", "parameter_unknown", strings.Repeat("n", 100)+"…")
	for _, p := range o.query {
		good, wrong := p.good, p.wrong
		invalid := "parameter_invalid"
		if p.name == "cursor" {
			invalid = "cursor_invalid"
		}
		add(p.name+" empty", p.name+"=", "parameter_invalid", p.name)
		add(p.name+" bare", p.name, "parameter_invalid", p.name)
		add(p.name+" twice", p.name+"="+good+"&"+p.name+"="+good, "parameter_invalid", p.name)
		add(p.name+" twice, differing", p.name+"="+good+"&"+p.name+"=x", "parameter_invalid", p.name)
		add(p.name+" NUL", p.name+"="+good+"%00", "parameter_invalid", p.name)
		add(p.name+" newline", p.name+"="+good+"%0A", "parameter_invalid", p.name)
		add(p.name+" bad UTF-8", p.name+"="+good+"%ff", "parameter_invalid", p.name)
		add(p.name+" overlong", p.name+"="+good+"%c0%80", "parameter_invalid", p.name)
		add(p.name+" surrogate", p.name+"="+good+"%ed%a0%80", "parameter_invalid", p.name)
		add(p.name+" bad escape", p.name+"="+good+"%zz", "parameter_invalid", p.name)
		add(p.name+" cut escape", p.name+"="+good+"%4", "parameter_invalid", p.name)
		add(p.name+" semicolon", p.name+"="+good+";x=1", "parameter_invalid", p.name)
		add(p.name+" too long", p.name+"="+strings.Repeat("a", 3000), invalid, p.name)
		add(p.name+" upper case", strings.ToUpper(p.name)+"="+good, "parameter_unknown", strings.ToUpper(p.name))
		add(p.name+" capital", strings.ToUpper(p.name[:1])+p.name[1:]+"="+good, "parameter_unknown", strings.ToUpper(p.name[:1])+p.name[1:])
		add(p.name+" as an array", p.name+"%5B%5D="+good, "parameter_unknown", p.name+"[]")
		for _, value := range wrong {
			add(p.name+" "+value, p.name+"="+value, invalid, p.name)
		}
	}
	return list
}

// badHeaders: who asks, for what, in which form.
func (o *operation) badHeaders() (list []bad) {
	add := func(name string, status int, code, param string, leaves trace, headers ...string) {
		b := o.refused("header "+name, status, code, param)
		b.leaves = leaves
		for i := 0; i < len(b.headers); i += 2 { // those given replace those there
			if !slices.Contains(headers, b.headers[i]) {
				headers = append(headers, b.headers[i], b.headers[i+1])
			}
		}
		b.headers = headers
		list = append(list, b)
	}
	add("Accept", 406, "not_acceptable", "", count, "Accept", "text/html")
	add("Accept nothing", 406, "not_acceptable", "", count, "Accept", "*/*;q=0")
	add("Accept nonsense", 406, "not_acceptable", "", count, "Accept", "json")
	add("traceparent twice", 400, "parameter_invalid", "Traceparent", o.refusal(""), "Traceparent", "00-a", "Traceparent", "00-a")
	add("Content-Type twice", 400, "parameter_invalid", "Content-Type", o.refusal(""), "Content-Type", "application/json", "Content-Type", "application/json")
	add("too large", 431, "headers_too_large", "", count, "X-Filler", strings.Repeat("x", 16<<10))
	if o.scoped {
		add("no token", 401, "token_missing", "", count, "Authorization", "")
		for name, value := range map[string]string{
			"word": "Bearer nonsense", "basic": "Basic c2hvcDpzd29yZGZpc2g=", "bare": "Bearer", "empty": "Bearer ", "two spaces": "Bearer  x",
			"JWT": "Bearer eyJhbGciOiJub25lIn0.e30.", "long": "Bearer " + strings.Repeat("a", 9000), "bytes": "Bearer \xff\xfe", "list": "Bearer a, Bearer b",
		} {
			add("token "+name, 401, "token_invalid", "", count, "Authorization", value)
		}
		add("token twice", 401, "token_invalid", "", count, "Authorization", "Bearer x", "Authorization", "Bearer x")
		scope := "payments:read"
		if slices.Contains([]string{"readPayment", "listPayments", "listRefunds", "readRefund", "readClock"}, o.id) {
			scope = "events:read"
		}
		add("scope", 403, "scope_missing", "", auditEntry, "Authorization", "Bearer "+o.world.token("all", scope))
	}
	if o.key != "" {
		for name, value := range map[string]string{
			"space": "a b", "long": strings.Repeat("k", 256), "quotes": `""`, "umlaut": "schlüssel", "bytes": "\xff", "tab": "a\tb", "DEL": "a\x7f", "quoted space": `" "`,
		} {
			if name == "DEL" || name == "tab" {
				continue // refused by HTTP itself, see TestOddRequests
			}
			add("key "+name, 400, "idempotency_key_invalid", "Idempotency-Key", o.refusal(""), "Idempotency-Key", value)
		}
		add("key twice", 400, "idempotency_key_invalid", "Idempotency-Key", o.refusal(""), "Idempotency-Key", "a", "Idempotency-Key", "a")
	}
	if o.key == "required" {
		add("no key", 400, "idempotency_key_required", "Idempotency-Key", o.refusal(""), "Idempotency-Key", "")
	}
	if o.media != "" {
		for _, value := range []string{
			"", "text/plain", "application/xml", "application/json5", "application/problem+json", "json", "application/json; charset=latin1", "application/json; v=1",
			"multipart/form-data; boundary=x", "application/json, application/json", "application/x-www-form-urlencoded; charset=utf-16", "*/*",
		} {
			if value == "" && o.optional && o.text(nil) == "" {
				continue
			}
			add("Content-Type "+value, 415, "media_type_unsupported", "Content-Type", o.refusal(""), "Content-Type", value)
		}
		for _, value := range []string{"gzip", "br", "chunked", "gzip, identity"} {
			add("Content-Encoding "+value, 415, "media_type_unsupported", "Content-Type", o.refusal(""), "Content-Encoding", value)
		}
	}
	return list
}
