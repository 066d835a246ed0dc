package handlers_test

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// badBodies: a body as a whole, then each of its parameters.
func (o *operation) badBodies() (list []bad) {
	if o.form != "" {
		return o.badForms()
	}
	if o.media == "" {
		return nil
	}
	add := func(name, body string, status int, code, param string) {
		b := o.refused("body "+name, status, code, param)
		b.body = body
		list = append(list, b)
	}
	good := o.text(nil)
	for name, body := range map[string]string{
		"cut": good[:len(good)-1], "twice": good + good, "trailing": good + "x", "trailing NUL": good + "\x00", "array": "[" + good + "]",
		"string": `"a"`, "number": "1", "null": "null", "true": "true", "blank": "   ", "BOM": "\ufeff" + good, "comment": "/**/" + good,
		"trailing comma": good[:len(good)-1] + ",}", "single quotes": strings.ReplaceAll(good, `"`, "'"), "NaN": `{"a":NaN}`,
		"bad UTF-8": strings.Replace(good, `":`, "\xff\":", 1), "UTF-16": "\xff\xfe{\x00}\x00", "surrogate": `{"a":"\ud800"}`, "bad escape": `{"a":"\x41"}`,
		"raw newline": "{\"a\":\"\n\"}", "deep": strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17), "very deep": strings.Repeat("[", 30000),
		"very deep objects": strings.Repeat(`{"a":`, 10000), "big number": `{"a":1` + strings.Repeat("0", 400) + `}x`, "leading zero": `{"a":01}`,
		"duplicate unknown": `{"a":1,"a":2}`, "escaped duplicate": `{"a":1,"\u0061":2}`,
	} {
		add(name, body, 400, "invalid_json", "")
	}
	add("too large", good+strings.Repeat(" ", cmp.Or(o.limit, 64<<10)), 413, "body_too_large", "")
	add("large and wrong", strings.Repeat("[", cmp.Or(o.limit, 64<<10)+1), 413, "body_too_large", "")
	for _, m := range o.body {
		param := o.prefix + m.name
		name := quotedJSON(m.name)
		replaced := func(part string) string { return o.text(map[string]string{m.name: part}) }
		add(m.name+" twice", replaced(name+":"+m.raw+","+name+":"+m.raw), 400, "invalid_json", "")
		add(m.name+" twice, once escaped", replaced(name+":"+m.raw+`,"\u00`+hex(m.name[0])+m.name[1:]+`":`+m.raw), 400, "invalid_json", "")
		add(m.name+" in capitals beside it", replaced(name+":"+m.raw+`,`+strings.ToUpper(name)+":"+m.raw), 400, "invalid_json", "")
		add(m.name+" in capitals", replaced(strings.ToUpper(name)+":"+m.raw), 400, "invalid_json", "")
		if at := strings.IndexAny(m.name, "sk"); at >= 0 { // ſ and K (Kelvin) fold to s and k
			folded := m.name[:at] + map[byte]string{'s': "ſ", 'k': "\u212a"}[m.name[at]] + m.name[at+1:]
			add(m.name+" folded", replaced(name+":"+m.raw+","+quotedJSON(folded)+":"+m.raw), 400, "invalid_json", "")
		}
		add(m.name+" with a space", replaced(name+":"+m.raw+`,"`+m.name+` ":1`), 400, "parameter_unknown", param+" ")
		if m.required {
			add(m.name+" missing", replaced(""), 400, "parameter_missing", param)
			add(m.name+" null", replaced(name+":null"), 400, "parameter_missing", param)
		}
		for _, raw := range wrongTypes(m.kind) {
			add(m.name+" "+raw, replaced(name+":"+raw), 400, "parameter_invalid", param)
		}
		for _, w := range wrongValues(m.kind) {
			if w.param != "" {
				w.param = "." + w.param
			}
			add(m.name+" "+w.raw, replaced(name+":"+w.raw), w.status, w.code, param+w.param)
		}
	}
	return list
}

func hex(c byte) string { return string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]) }

func wrongTypes(kind kindOf) []string {
	all := map[string]string{"number": "10", "fraction": "10.00", "bool": "true", "string": `"true"`, "object": `{"a":"b"}`, "array": `["10.00"]`, "huge": "1e999"}
	switch kind {
	case flag:
		delete(all, "bool")
	case labels, filters, proposal, window:
		delete(all, "object")
	case seconds, delayDays, place:
		delete(all, "number")
	case goldenCases:
		delete(all, "array")
	case eventTypes, accountList, manyIDs:
	default:
		delete(all, "string")
	}
	var list []string
	for _, raw := range all {
		list = append(list, raw)
	}
	return list
}

type wrongValue struct {
	raw    string
	status int
	code   string
	param  string // below the parameter itself
}

func wrongValues(kind kindOf) (list []wrongValue) {
	add := func(status int, code string, texts ...string) {
		for _, text := range texts {
			list = append(list, wrongValue{quotedJSON(text), status, code, ""})
		}
	}
	list = slices.Concat(wrongForWebhooks(kind), wrongForExports(kind), wrongForCutoffs(kind), wrongForRules(kind), wrongForAccess(kind))
	long := strings.Repeat("x", 60000)
	switch kind {
	case amount:
		add(422, "amount_invalid", "", " ", " 1", "1 ", "+1", "-1", "-0", "1e3", "1E3", "1,5", "1.", ".5", "01", "00", "0x10", "NaN", "Infinity", "1_000",
			"1 000", "١", "１", "1.00000", "1000000000000000", "9999999999999999999999", "99999999999999.99", "0", "0.00", `1\u0000`, `1\n`, "ten", "€10", "10EUR", long)
		add(422, "amount_scale_invalid", "1.001", "1.0000", "0.001", "99999999999999.9999")
	case currency:
		add(422, "currency_unsupported", "", "eur", "Eur", "EU", "EURO", "XXX", "XAU", "978", " EUR", `EUR\u0000`, "ＥＵＲ", long)
	case payee:
		add(422, "payee_invalid", "", " ", "two words", "ü.example", `a\u0000`, `a\tb`, `a\n`, strings.Repeat("p", 256), "日本", long)
	case identifier:
		add(400, "parameter_invalid", "", " ", "a-b", "a b", "ü", `a\u0000`, "../x", "{ma}", strings.Repeat("a", 65), long)
	case duration:
		add(400, "parameter_invalid", "", " ", "0s", "-1h", "1", "26", "1d", "26 h", "1h ", "١h", "999us", "9601h", "99999999999999999h", "Inf", `1h\u0000`, long)
	case instant:
		add(400, "parameter_invalid", "", "tomorrow", "2026-03-02", "2026-03-02T08:59:59Z", "2026-03-02T09:00:00.000Z", "2027-04-07T09:00:00Z", "9999-12-31T23:59:59Z", long)
	case choice:
		add(400, "parameter_invalid", "", " ", "nonsense", "MANUAL", "Approve", `manual\u0000`, `approve\u0000`, long)
	case text64:
		add(400, "parameter_invalid", strings.Repeat("r", 65), strings.Repeat("ü", 65), `a\u0000`, `a\nb`, `a\u0007`, `a\u007f`, `a\u0085`, long)
	case text255:
		add(400, "parameter_invalid", strings.Repeat("r", 256), strings.Repeat("日", 256), `a\u0000`, `a\r\nb`, `a\u001b`, long)
	case labels:
		list = append(list, []wrongValue{
			{`{"` + strings.Repeat("k", 41) + `":"v"}`, 400, "parameter_invalid", ""},
			{`{"":"v"}`, 400, "parameter_invalid", ""},
			{`{"k\u0000":"v"}`, 400, "parameter_invalid", ""},
			{`{"k":"` + strings.Repeat("v", 501) + `"}`, 400, "parameter_invalid", "k"},
			{`{"k":"\u0000"}`, 400, "parameter_invalid", "k"},
			{`{"k":1}`, 400, "parameter_invalid", "k"},
			{`{"k":null}`, 400, "parameter_invalid", "k"},
			{`{"k":true}`, 400, "parameter_invalid", "k"},
			{`{"k":{}}`, 400, "parameter_invalid", "k"},
			{`{"k":["v"]}`, 400, "parameter_invalid", "k"},
			{manyKeys(51), 400, "parameter_invalid", ""},
		}...)
	}
	return list
}

func manyKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, `"`+strings.Repeat("a", i%40+1)+strings.Repeat("b", i/40)+`":""`)
	}
	return "{" + strings.Join(keys, ",") + "}"
}

// badForms: requests of /oauth2/*, whose errors are OAuth's.
func (o *operation) badForms() (list []bad) {
	add := func(name, form string, status int, code, param string, leaves trace) {
		b := o.refused("form "+name, status, code, param)
		b.body, b.leaves = form, leaves
		list = append(list, b)
	}
	good, _ := url.ParseQuery(o.form)
	needs := "grant_type"
	if !good.Has(needs) {
		needs = "token"
	}
	with := func(name string, values ...string) string {
		changed := url.Values{}
		for n, v := range good {
			changed[n] = v
		}
		changed[name] = values
		return changed.Encode()
	}
	add("empty", "", 415, "media_type_unsupported", "Content-Type", count) // without a body there is no Content-Type
	list[0].headers = []string{"Authorization", ""}
	add("nonsense", "nonsense", 400, "parameter_missing", needs, count)
	add("JSON", `{"grant_type":"client_credentials"}`, 400, "parameter_missing", needs, count)
	add("bad escape", o.form+"&scope=%zz", 400, "parameter_invalid", "", count)
	add("bad UTF-8", o.form+"&scope=%ff", 400, "parameter_invalid", "", count)
	add("bad UTF-8 name", o.form+"&%ff=1", 400, "parameter_invalid", "", count)
	add("too large", o.form+"&x="+strings.Repeat("x", 16<<10), 413, "body_too_large", "", count)
	for name := range good {
		add(name+" twice", o.form+"&"+name+"="+url.QueryEscape(good.Get(name)), 400, "parameter_invalid", name, count)
		add(name+" missing", with(name), 400, "parameter_missing", name, count)
		add(name+" empty", with(name, ""), 400, "parameter_missing", name, count)
		add(name+" in capitals", with(name)+"&"+strings.ToUpper(name)+"="+url.QueryEscape(good.Get(name)), 400, "parameter_missing", name, count)
	}
	for _, name := range []string{"scope", "grant_id", "client_id", "unknown"} {
		add(name+" twice", o.form+"&"+name+"=x&"+name+"=x", 400, "parameter_invalid", name, count)
	}
	for _, value := range []string{"jwt-bearer", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer", " "} {
		add("client_assertion_type "+value, with("client_assertion_type", value), 400, "parameter_invalid", "client_assertion_type", count)
	}
	assertion := good.Get("client_assertion")
	changed := assertion[:len(assertion)-2] + "AA"
	if changed[:len(changed)-1] == assertion[:len(assertion)-1] { // which ends so once in 64 times
		changed = assertion[:len(assertion)-2] + "BA"
	}
	for name, value := range map[string]string{
		"word": "nonsense", "two parts": "a.b", "four parts": assertion + ".x", "changed": changed, "space": assertion + " ",
		"NUL": assertion + "\x00", "no signature": assertion[:strings.LastIndexByte(assertion, '.')+1], "padded": assertion + "=", "long": strings.Repeat("a", 12000),
		"line break": assertion[:40] + "\r\n" + assertion[40:], "umlaut": "ü.ü.ü", "alg none": "eyJhbGciOiJub25lIn0." + strings.Split(assertion, ".")[1] + ".",
	} {
		add("client_assertion "+name, with("client_assertion", value), 401, "token_invalid", "", count)
	}
	for _, value := range []string{"nonsense", "cli_" + strings.Repeat("0", 26), "\x00"} {
		add("client_id "+value, with("client_id", value), 401, "token_invalid", "", count)
	}
	if needs == "grant_type" {
		for _, value := range []string{"password", "CLIENT_CREDENTIALS", "client_credentials ", "client_credentials\x00", "refresh_token"} {
			add("grant_type "+value, with("grant_type", value), 400, "parameter_invalid", "grant_type", count)
		}
		// The client has proved who it is; what it asks for is not right.
		for _, value := range []string{"nonsense", "payments:read,events:read", "payments:read  events:read", " payments:read", "PAYMENTS:READ", "payments:read payments:read", "a\x00"} {
			add("scope "+value, with("scope", value), 400, "parameter_invalid", "scope", auditEntry)
		}
		for _, value := range []string{"nonsense", "grt_" + strings.Repeat("0", 26), "a b", strings.Repeat("g", 5000), "\x00"} {
			add("grant_id "+value, with("grant_id", value), 400, "parameter_invalid", "grant_id", auditEntry)
		}
	}
	for i := range list {
		if list[i].status == 401 {
			list[i].code = "token_invalid"
		}
	}
	return list
}
