package gcra

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what is counted together.
type Kind string

// The kinds of requests that have a limit of their own.
const (
	Tokens  Kind = "tokens"  // access tokens that are asked for
	Writes  Kind = "writes"  // what may change something
	Reads   Kind = "reads"   // what is read of the primary
	Quotes  Kind = "quotes"  // what an instance answers without the primary
	Refused Kind = "refused" // what was refused before it was counted otherwise
)

// Kinds are those that can be set, in the order in which they are printed.
var Kinds = []Kind{Tokens, Writes, Reads, Quotes}

// Limits are the limits that are set. A kind that is not there has another's, and one
// with the zero Limit has none.
type Limits map[Kind]Limit

// Bounds of a limit. Together they keep every sum far below 2^53, where Lua still
// counts exactly.
const (
	mostRate  = 1_000_000 // in a period, and in a second
	mostBurst = 100_000
)

var periods = []struct {
	name string
	of   time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// Parse reads limits such as "tokens=60/m,writes=100/s,burst=300,quotes=off". A burst
// belongs to the limit in front of it, and is twice its rate where none is given; off
// is no limit. "off" alone turns all of them off, and "" sets none.
func Parse(text string) (Limits, error) {
	limits := Limits{}
	if text == "" {
		return limits, nil
	}
	if text == "off" {
		for _, kind := range Kinds {
			limits[kind] = Limit{}
		}
		return limits, nil
	}
	var last Kind
	for entry := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		var err error
		if name == "burst" {
			err = limits.burst(last, value)
			last = "" // it has no other
		} else {
			last = Kind(name)
			err = limits.set(last, value)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
	}
	return limits, nil
}

func (l Limits) set(kind Kind, value string) error {
	if !slices.Contains(Kinds, kind) {
		return fmt.Errorf("there are limits of %s, %s, %s and %s", Kinds[0], Kinds[1], Kinds[2], Kinds[3])
	}
	if _, twice := l[kind]; twice {
		return fmt.Errorf("%s has two limits", kind)
	}
	if value == "off" {
		l[kind] = Limit{}
		return nil
	}
	count, unit, _ := strings.Cut(value, "/")
	rate, ok := number(count, mostRate)
	at := slices.IndexFunc(periods, func(p struct {
		name string
		of   time.Duration
	},
	) bool {
		return p.name == unit
	})
	if !ok || at < 0 {
		return fmt.Errorf("a limit is a number from 1 to %d, a slash and s, m or h, such as 100/s; or off", mostRate)
	}
	l[kind] = Limit{Rate: rate, Period: periods[at].of, Burst: min(2*rate, mostBurst)}
	return nil
}

func (l Limits) burst(kind Kind, value string) error {
	limit := l[kind]
	if limit.None() {
		return fmt.Errorf("a burst stands behind the limit that it belongs to")
	}
	var ok bool
	if limit.Burst, ok = number(value, mostBurst); !ok {
		return fmt.Errorf("a burst is a number from 1 to %d", mostBurst)
	}
	l[kind] = limit
	return nil
}

// number reads digits, as they are printed.
func number(text string, most int64) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 1 && n <= most && strconv.FormatInt(n, 10) == text
}

// String prints limits as Parse reads them.
func (l Limits) String() string {
	var list []string
	for _, kind := range Kinds {
		limit, set := l[kind]
		switch {
		case !set:
		case limit.None():
			list = append(list, string(kind)+"=off")
		default:
			list = append(list, string(kind)+"="+limit.String())
		}
	}
	return strings.Join(list, ",")
}

// String prints one limit, with its burst where that is not twice the rate.
func (l Limit) String() string {
	text := strconv.FormatInt(l.Rate, 10) + "/"
	for _, p := range periods {
		if p.of == l.Period {
			text += p.name
		}
	}
	if l.Burst != min(2*l.Rate, mostBurst) {
		text += ",burst=" + strconv.FormatInt(l.Burst, 10)
	}
	return text
}

// Over are these limits, and another's where they set none.
func (l Limits) Over(other Limits) Limits {
	all := Limits{}
	for _, set := range []Limits{other, l} {
		for kind, limit := range set {
			all[kind] = limit
		}
	}
	return all
}
