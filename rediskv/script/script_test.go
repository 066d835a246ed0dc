package script

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestHeaders: a script's header is code. What it says wrongly is known before
// the script runs.
func TestHeaders(t *testing.T) {
	type keys struct{ Grant, Payment string }
	type args struct {
		GrantVersion string
		NowMs        int64
	}
	const good = "-- Does this.\n-- KEYS: grant,\n--   payment\n-- ARGV: grant_version, now_ms (empty: never)\n-- ARGV goes on.\nreturn 1\n"
	for _, test := range []struct{ name, source, fault string }{
		{"good", good, ""},
		{"other order", strings.Replace(good, "grant,\n--   payment", "payment, grant", 1), ""},
		{"missing", strings.Replace(good, ",\n--   payment", "", 1), "the header does not name payment"},
		{"unknown", strings.Replace(good, "payment", "paiment", 1), "no field for paiment"},
		{"twice", strings.Replace(good, "payment", "grant", 1), "grant is named twice"},
		{"a key and an argument", strings.Replace(good, "now_ms", "grant", 1), "grant is named twice"},
		{"two lines", good + "-- KEYS: grant\n", "KEYS stands there twice"},
		{"no line", strings.Replace(good, "-- ARGV: ", "-- ARG: ", 1), "says nothing of KEYS or ARGV"},
		{"no name", strings.Replace(good, "payment", "1 payment", 1), `"1 payment" is no name`},
	} {
		h, err := parseHeader(test.source)
		if err == nil {
			_, err = placesFor(h, reflect.TypeFor[keys](), reflect.TypeFor[args]())
		}
		switch {
		case err == nil && test.fault != "", err != nil && (test.fault == "" || !strings.Contains(err.Error(), test.fault)):
			t.Errorf("%s: %v, want %q", test.name, err, test.fault)
		}
	}
}

// TestPlaces: keys and arguments stand where the header names them.
func TestPlaces(t *testing.T) {
	h, err := parseHeader("-- KEYS: b, a\n-- ARGV: event_id, x\n")
	if err != nil {
		t.Fatal(err)
	}
	type inner struct{ B string }
	type keys struct {
		A string
		inner
	}
	type args struct {
		X       int
		EventID string
	}
	f, err := placesFor(h, reflect.TypeFor[keys](), reflect.TypeFor[args]())
	if err != nil {
		t.Fatal(err)
	}
	s := &Script[keys, args]{&Named{places: f}}
	inv := s.With(keys{A: "1", inner: inner{B: "2"}}, args{X: 3, EventID: "4"})
	if inv.Keys[0] != "2" || inv.Keys[1] != "1" || inv.Args[0] != "4" || inv.Args[1] != 3 {
		t.Errorf("%q %v", inv.Keys, inv.Args)
	}
	if want := "local b, a = KEYS[1], KEYS[2]\nlocal named_keys = 2\nlocal event_id, x = ARGV[1], ARGV[2]\nlocal named_args = 2\n"; h.locals(false) != want {
		t.Errorf("%q", h.locals(false))
	}
	s.Guarded = true
	inv = s.With(keys{A: "1", inner: inner{B: "2"}}, args{X: 3, EventID: "4"})
	inv.Within("k", "h")
	if !slices.Equal(inv.Keys, []string{"k", "2", "1"}) || !slices.Equal(inv.Args, []any{"h", "4", 3}) {
		t.Errorf("%q %v", inv.Keys, inv.Args)
	}
	if want := guard + "local b, a = KEYS[2], KEYS[3]\nlocal named_keys = 3\nlocal event_id, x = ARGV[2], ARGV[3]\nlocal named_args = 3\n"; h.locals(true) != want {
		t.Errorf("%q", h.locals(true))
	}
}

// TestPrelude: a script has what it names in front of it, and what that names, and no more.
func TestPrelude(t *testing.T) {
	source := withPrelude("return join(KEYS[1])\n")
	wake, tell, join := strings.Index(source, "local function wake("), strings.Index(source, "local function tell_workers("), strings.Index(source, "local function join(")
	if wake < 0 || tell < 0 || join < wake || join < tell {
		t.Errorf("join does not stand behind what it calls:\n%s", source)
	}
	if strings.Contains(source, "local function answered(") {
		t.Errorf("it has what it does not call:\n%s", source)
	}
}
