// Package script makes Redis scripts of Lua files. What a file takes stands in its
// header, which is code: the names there are local variables of the body, and fields
// of what Go runs it with.
package script

import (
	"embed"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/prelude.lua
var prelude string

var all []*Named

// All are the scripts of the program, which are loaded into every master when a Store
// opens.
func All() []*Named { return all }

// Named is a Lua script. Its header names what it takes, and is code: the
// names become local variables in front of the body.
type Named struct {
	Name, Source, Body string
	*redis.Script
	Fault   error // why the script cannot be used
	Reads   bool  // it writes nothing, and a replica can run it
	Guarded bool  // it writes within one history of its partition
	// RateLimit is the place of its argument rate_limit: it says behind every outcome
	// what the limit has left (prelude.lua). 0: it has none.
	RateLimit int
	places
}

// Script is one whose header names the fields of K (strings) and of A, in the
// order in which Redis gets them.
type Script[K, A any] struct{ *Named }

// Invocation is a script with what it is run with. Repeated groups are appended
// to both lists. In front of those of a guarded script is room for its history.
type Invocation struct {
	*Named
	Keys []string
	Args []any
}

// Grow makes room for as many keys and arguments behind those that there are.
func (inv *Invocation) Grow(keys, args int) {
	inv.Keys, inv.Args = slices.Grow(inv.Keys, keys), slices.Grow(inv.Args, args)
}

// Group appends a number of values, and these.
func (inv *Invocation) Group(values []any) {
	inv.Args = append(append(inv.Args, len(values)), values...)
}

// New reads lua/name.lua of a package. A header that does not name each field
// once, and nothing else, is a fault that Open reports. The script is guarded: it
// writes only within the history that it is run with, and answers 'history' in another.
func New[K, A any](lua embed.FS, name string) Script[K, A] {
	return Script[K, A]{read(lua, name, true, (*K)(nil), (*A)(nil))}
}

// NewRead is New for one that writes nothing.
func NewRead[K, A any](lua embed.FS, name string) Script[K, A] {
	s := NewOpen[K, A](lua, name)
	s.Reads = true
	return s
}

// NewOpen is New for one that writes in whichever history there is.
func NewOpen[K, A any](lua embed.FS, name string) Script[K, A] {
	return Script[K, A]{read(lua, name, false, (*K)(nil), (*A)(nil))}
}

// read takes pointers to what a script is run with, instead of types: what it does stands
// in a program once, and not for each of a hundred scripts.
func read(lua embed.FS, name string, guarded bool, keys, args any) *Named {
	source := sourceOf(lua, name)
	h, err := parseHeader(source)
	s := register(name, h.locals(guarded)+source, h.counts())
	s.Body, s.Guarded = source, guarded
	if h.counts() {
		s.RateLimit = slices.Index(h.args, rateLimit)
		if guarded {
			s.RateLimit++
		}
	}
	if err == nil {
		s.places, err = placesFor(h, reflect.TypeOf(keys).Elem(), reflect.TypeOf(args).Elem())
	}
	if err != nil {
		s.Fault = fmt.Errorf("lua/%s.lua: %w", name, err)
	}
	return s
}

func sourceOf(lua embed.FS, name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is compiled in
	}
	return string(text)
}

// places are the fields whose values are the keys and arguments, in order.
type places struct{ keys, args [][]int }

func placesFor(h header, keys, args reflect.Type) (p places, err error) {
	var other error
	p.keys, err = placesIn(h.keys, keys)
	p.args, other = placesIn(h.args, args)
	return p, errors.Join(err, other)
}

func register(name, body string, counts bool) *Named {
	if counts {
		body = "local function outcome()\n" + body + "end\nlocal reply = outcome()\nreply[#reply + 1] = rate_left\nreturn reply\n"
	}
	source := withPrelude(body)
	s := &Named{Name: name, Source: source, Script: redis.NewScript(source)}
	all = append(all, s)
	return s
}

// withPrelude has those blocks of the prelude in front of a script that it needs: Redis
// makes every function anew each time that a script runs. What a block uses stands in
// front of it.
func withPrelude(script string) string {
	parts := []string{script} // from the last to the first
	for _, b := range slices.Backward(blocks()) {
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, b.name) }) {
			parts = append(parts, b.text)
		}
	}
	slices.Reverse(parts)
	return globals + strings.Join(parts, "")
}

// block is a part of the prelude, known by the last name that it defines.
type block struct{ name, text string }

// blocks are those behind the prelude's heading. They are read once: a program has a
// hundred scripts, and makes them each time that it starts.
var blocks = sync.OnceValue(func() (list []block) {
	for _, text := range strings.Split(prelude, "\n\n")[1:] {
		const local = "\nlocal "
		text = "\n" + text + "\n"
		name := strings.TrimPrefix(text[strings.LastIndex(text, local)+len(local):], "function ")
		list = append(list, block{strings.TrimSpace(name[:strings.IndexAny(name, " (")+1]), text})
	}
	return list
})

// With is the script run with these keys and arguments.
func (s Script[K, A]) With(keys K, args A) *Invocation {
	return s.with(reflect.ValueOf(keys), reflect.ValueOf(args))
}

func (s *Named) with(keys, args reflect.Value) *Invocation {
	first := 0
	if s.Guarded {
		first = 1
	}
	inv := &Invocation{Named: s, Keys: make([]string, first+len(s.keys)), Args: make([]any, first+len(s.args))}
	for i, field := range s.keys {
		inv.Keys[first+i] = keys.FieldByIndex(field).String()
	}
	for i, field := range s.args {
		inv.Args[first+i] = args.FieldByIndex(field).Interface()
	}
	return inv
}

// Place is where the key or argument at a place of the header stands.
func (inv *Invocation) Place(named int) int {
	if inv.Guarded {
		named++
	}
	return named
}

// Within has a guarded script write within a history, whose record is at a key.
func (inv *Invocation) Within(key, history string) { inv.Keys[0], inv.Args[0] = key, history }

// header is what a script takes: a key or an argument for each name.
type header struct{ keys, args []string }

var headerName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// headerLine reads "-- KEYS: …" or "-- ARGV: …".
func headerLine(line string) (kind, names string, ok bool) {
	line, ok = strings.CutPrefix(line, "-- ")
	kind, names, found := strings.Cut(line, ": ")
	return kind, names, ok && found && (kind == "KEYS" || kind == "ARGV")
}

// rateLimit is the argument of a script that counts a request in a limit.
const rateLimit = "rate_limit"

func (h header) counts() bool { return slices.Contains(h.args, rateLimit) }

// parseHeader reads the lines "-- KEYS: …" and "-- ARGV: …" and those that go on
// with them. Names are separated by commas. What is in brackets is left to the
// reader: a unit, or when it is empty.
func parseHeader(source string) (h header, err error) {
	var list *[]string
	seen := map[string]bool{}
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, "\n")
		kind, names, begins := headerLine(line)
		text, more := strings.CutPrefix(line, "--   ")
		switch {
		case begins && seen[kind]:
			return h, fmt.Errorf("%s stands there twice", kind)
		case begins:
			seen[kind] = true
			if list, text = &h.keys, names; kind == "ARGV" {
				list = &h.args
			}
		case list == nil || !more:
			list = nil
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
			name, _, _ = strings.Cut(strings.TrimSpace(name), " (")
			if name == "none" {
				continue
			}
			if !headerName.MatchString(name) {
				return h, fmt.Errorf("%q is no name", name)
			}
			if slices.Contains(h.keys, name) || slices.Contains(h.args, name) {
				return h, fmt.Errorf("%s is named twice", name)
			}
			*list = append(*list, name)
		}
	}
	if !seen["KEYS"] || !seen["ARGV"] {
		return h, errors.New("the header says nothing of KEYS or ARGV")
	}
	return h, nil
}

// globals are found sooner where they are locals.
const globals = "local KEYS, ARGV, redis = KEYS, ARGV, redis\n"

// guard ends a script in another history than the one that it is run with: what it
// was computed from is not there any more, or nobody knows yet whether it is.
const guard = "history_id = ARGV[1]\nif redis.pcall('HGET', KEYS[1], 'open') ~= history_id then return {'history'} end\n"

// locals declares the names, and where repeated groups begin.
func (h header) locals(guarded bool) string {
	var b strings.Builder
	first := 1
	if guarded {
		first = 2
		b.WriteString(guard)
	}
	declare := func(names []string, list, count string) {
		values := make([]string, len(names))
		for i := range names {
			values[i] = fmt.Sprintf("%s[%d]", list, first+i)
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "local %s = %s\n", strings.Join(names, ", "), strings.Join(values, ", "))
		}
		fmt.Fprintf(&b, "local %s = %d\n", count, first-1+len(names))
	}
	declare(h.keys, "KEYS", "named_keys")
	declare(h.args, "ARGV", "named_args")
	return b.String()
}

// placesIn finds the field of each name.
func placesIn(names []string, of reflect.Type) (found [][]int, err error) {
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(of) {
		if f.Anonymous {
			continue
		}
		name := snake(f.Name)
		if fields[name] != nil {
			return nil, fmt.Errorf("%s has two fields %s", of, f.Name)
		}
		fields[name] = f.Index
	}
	for _, name := range names {
		field, ok := fields[name]
		if !ok {
			return nil, fmt.Errorf("%s has no field for %s", of, name)
		}
		found = append(found, field)
		delete(fields, name)
	}
	for name := range fields {
		err = errors.Join(err, fmt.Errorf("the header does not name %s of %s", name, of))
	}
	return found, err
}

// snake is EventID as event_id.
func snake(name string) string {
	text := make([]byte, 0, len(name)+8)
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			if i > 0 && (name[i-1] < 'A' || name[i-1] > 'Z') {
				text = append(text, '_')
			}
			c += 'a' - 'A'
		}
		text = append(text, c)
	}
	return string(text)
}

// Unexpected is the error for an outcome that a script does not have.
func Unexpected(inv *Invocation, outcome string) error {
	return fmt.Errorf("redis %s: unexpected outcome %q", inv.Name, outcome)
}
