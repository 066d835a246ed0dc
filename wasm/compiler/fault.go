package compiler

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"tollgate"
)

// Fault is an error in rule.toml for the person who writes it: where it is, what is
// wrong, and what is expected there.
type Fault struct {
	Line int // from 1; 0: the whole file
	What string
	Want string // "": What says it
}

// Error is the fault without the name of the file.
func (f *Fault) Error() string {
	text := f.What
	if f.Want != "" {
		text += "; expected " + f.Want
	}
	return text
}

// place is an error in the n-th, from 1, of the tables of a name.
type place struct {
	table string
	n     int
	err   error
}

func (p *place) Error() string {
	if p.n == 0 {
		return p.table + ": " + p.err.Error()
	}
	return fmt.Sprintf("%s %d: %v", p.table, p.n, p.err)
}

func (p *place) Unwrap() error { return p.err }

// unknownKey is a key that stands where no such key is taken.
type unknownKey struct {
	key    string // dotted
	beside string // what it stands beside; "" in a table
}

func (u *unknownKey) Error() string {
	return strings.TrimSpace("unknown key " + u.key + " " + u.beside)
}

// wants says of each key what stands behind it.
var wants = map[string]string{
	"label":      `text in quotes, 1 to 64 bytes, such as label = "Card fee"`,
	"refunds":    `refunds = true or refunds = false, without quotes`,
	"refund":     `a table: the line [refund], with label, [[refund.fee]] and the like below it`,
	"otherwise":  `otherwise = "refuse" or otherwise = "free"`,
	"fee":        `a table: the line [[fee]], with its keys on the lines below it`,
	"refuse":     `a table: the line [[refuse]], with its keys on the lines below it`,
	"payee":      `a table: the line [[payee]], with its keys on the lines below it`,
	"currencies": `a list of ISO 4217 codes in quotes, such as currencies = ["EUR", "USD"]`,
	"except":     `a list of ISO 4217 codes in quotes, such as except = ["EUR"]`,
	"percentage": `a number in quotes, 0 to 100 with up to 4 places, such as percentage = "1.40"`,
	"fixed":      `an amount in quotes with at most the places of each currency, such as fixed = "0.25"`,
	"minimum":    `an amount in quotes with at most the places of each currency, such as minimum = "0.30"`,
	"maximum":    `an amount in quotes with at most the places of each currency, such as maximum = "50.00"`,
	"up_to":      `an amount in quotes, above that of the tier before, in every tier but the last, such as up_to = "100.00"`,
	"tiers":      `a list of tiers, such as tiers = [{ up_to = "100.00", percentage = "1.40" }, { percentage = "1.20" }]`,
	"code":       `a word in quotes, such as code = "currency_blocked"`,
	"message":    `a sentence in quotes`,
	"name":       `a payee in quotes, in lower case, such as name = "refuse.test"`,
	"then":       `then = "refuse", then = "trap" or then = "loop"`,
	"module":     `the path of the module in quotes, such as module = "build/rule.wasm"`,
	"free":       `a list of ISO 4217 codes in quotes, such as free = ["CHF"]`,
}

// keysOf lists the keys of each table.
var keysOf = map[string]string{
	"":       "label, otherwise, refunds, [[fee]], [[refuse]], [[payee]], [refund]",
	"fee":    "currencies, percentage, fixed, minimum, maximum, tiers",
	"tiers":  "up_to, percentage, fixed",
	"refuse": "currencies, except, code, message",
	"payee":  "name, then, code, message",
	"module": "module, label, free, otherwise, refunds",
}

// FaultOf says where in a source an error of Build or ParsePackage is, and what is
// expected there.
func FaultOf(source []byte, err error) *Fault {
	var syntax toml.ParseError
	var unknown *unknownKey
	switch {
	case errors.As(err, &syntax):
		return syntaxFault(syntax)
	case errors.As(err, &unknown):
		parts := strings.Split(unknown.key, ".")
		table := ""
		if len(parts) > 1 {
			table = parts[len(parts)-2]
		}
		if table == "refund" {
			table = ""
		}
		if unknown.beside != "" {
			table = "module"
		}
		return &Fault{lineOf(source, unknown.key, 0), fmt.Sprintf("there is no key %s here", parts[len(parts)-1]), "one of " + keysOf[table]}
	}
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		key := m[2][strings.LastIndex(m[2], ".")+1:]
		return &Fault{line, fmt.Sprintf("the value of %s is %s", key, nameOf(m[3])), wants[key]}
	}
	return placedFault(source, err)
}

// nameOf is a type of the decoder in the words of TOML.
func nameOf(goType string) string {
	if name, ok := typeNames[goType]; ok {
		return name
	}
	return "of another type"
}

// syntaxFault is of text that is no TOML. The decoder speaks of its own parts and
// of types of Go; the reader is told in the words of the page.
func syntaxFault(e toml.ParseError) *Fault {
	key := e.LastKey
	for _, m := range misreadings {
		found := m.decoder.FindStringSubmatch(e.Message)
		if found == nil {
			continue
		}
		if len(found) > 1 {
			key = found[1]
		}
		key = key[strings.LastIndex(key, ".")+1:]
		if m.want != "" {
			return &Fault{e.Position.Line, m.what, m.want}
		}
		return &Fault{e.Position.Line, fmt.Sprintf(m.what, key), wants[key]}
	}
	return &Fault{e.Position.Line, "this is not TOML", `a line such as percentage = "1.40", or a heading such as [[fee]]`}
}

// misreadings are what the decoder says of text that is no TOML, and what the
// reader is told. Without want, %s is the key, which says what is expected. The
// first that fits counts.
var misreadings = []struct {
	decoder    *regexp.Regexp
	what, want string
}{
	{regexp.MustCompile(`^Key '(.+)' (?:has already been defined|was already created)`), "%s stands twice", ""},
	{regexp.MustCompile(`^"(.+)" is not a table`), "%s stands twice", ""},
	{regexp.MustCompile(`table (?:array )?name|table separator`), "the heading of a table is not closed", "a heading such as [[fee]] or [refund]"},
	{regexp.MustCompile(`^strings cannot contain newlines|^unexpected EOF; expected ['"]`), "the text of %s has no quotation mark at its end", ""},
	{regexp.MustCompile(`^invalid escape|hexadecimal digits`), "a text has a single \\", `\\ for one \`},
	{regexp.MustCompile(`array terminator|inline table|^unexpected comma`), "a list lacks a comma or its bracket", `a list such as ["EUR", "USD"]`},
	{regexp.MustCompile(`key separator|expected '\.' or '='|^unexpected '[=.]'`), "there is no key with = here", `a line such as percentage = "1.40"`},
	{regexp.MustCompile(`top-level item`), "something stands behind the value", "one key a line, with its value in quotes"},
	{regexp.MustCompile(`^expected value|expected value$|^expected a digit|number|^[Ii]nvalid (?:float|integer|datetime)|out of (?:the safe )?.*range|floats`), "the value of %s is neither text in quotes nor a list", ""},
	{regexp.MustCompile(`control characters|UTF-8|NULL|BOM`), "a character that TOML does not have", "a text file in UTF-8"},
}

var (
	nameInError = regexp.MustCompile(`[a-z_]+`)

	// wrongType is how the decoder says that a value has not the type of its key. The
	// types are those of Go, which the reader has nothing to do with.
	wrongType = regexp.MustCompile(`line (\d+) \(last key "([^"]*)"\): (?:incompatible types: TOML value has type|type mismatch for [^:]*: expected [a-z]+ but found) ([a-zA-Z0-9.\[\]]+)`)
	typeNames = map[string]string{
		"int64": "a number", "float64": "a number", "string": "text", "bool": "true or false", "[]any": "a list", "map[string]any": "a table", "[]map[string]any": "a list of tables", "time.Time": "a time",
	}

	// mentioned in errors without being at fault.
	tables = []string{"fee", "refuse", "payee", "refund"}
)

// placedFault is of a table that says what cannot be.
func placedFault(source []byte, err error) *Fault {
	f := &Fault{What: strings.TrimPrefix(err.Error(), "table: ")}
	if e, ok := errors.AsType[*tollgate.Error](err); ok {
		f.What = strings.Replace(f.What, string(e.Code)+": ", "", 1)
	}
	table, n, inner := "", 0, err
	for {
		var p *place
		if !errors.As(inner, &p) {
			break
		}
		if table != "" {
			table += "."
		}
		table, n, inner = table+p.table, p.n, p.err
	}
	f.Line = lineOf(source, table, n)
	words := nameInError.FindAllString(inner.Error(), -1)
	if e, ok := errors.AsType[*tollgate.Error](err); ok && e.Code == tollgate.CodeCurrencyUnsupported {
		words = []string{"currencies"}
	}
	for _, word := range words {
		if want, ok := wants[word]; ok && !slices.Contains(tables, word) && (table != "" || word == "label" || word == "otherwise" || word == "refunds") {
			f.Want = want
			if line := keyBelow(source, f.Line, word); line > 0 {
				f.Line = line
			}
			break
		}
	}
	return f
}

var header = regexp.MustCompile(`^\s*\[\[?\s*([a-z_.]+)\s*\]\]?`)

// lineOf is the line of the n-th table of a name, or of a dotted key where n is 0; 0 if
// the source does not show it.
func lineOf(source []byte, name string, n int) int {
	within, seen, line := "", 0, 0
	for text := range strings.Lines(string(source)) {
		line++
		if m := header.FindStringSubmatch(text); m != nil {
			if within = m[1]; within != name {
				continue
			}
			if seen++; n <= seen {
				return line
			}
			continue
		}
		key, _, assigned := strings.Cut(text, "=")
		full := strings.TrimSpace(key)
		if within != "" {
			full = within + "." + full
		}
		last := name[strings.LastIndex(name, ".")+1:]
		if n == 0 && name != "" && assigned && (full == name || strings.HasPrefix(name, full+".") && strings.Contains(text, last)) {
			return line
		}
	}
	return 0
}

// keyBelow is the line of a key in the table whose heading stands on a line.
func keyBelow(source []byte, heading int, key string) int {
	line := 0
	for text := range strings.Lines(string(source)) {
		line++
		switch {
		case line <= heading:
		case header.MatchString(text):
			return 0
		case regexp.MustCompile(`(^|[\s{,])` + key + `\s*=`).MatchString(text):
			return line
		}
	}
	return 0
}
