package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// report is what bench.json holds.
type report struct {
	Commit  string  `json:"commit"`
	Base    string  `json:"base,omitzero"` // measured in turn with it
	Day     string  `json:"day"`
	Machine machine `json:"machine"`
	Rounds  int     `json:"rounds"`
	Lines   []row   `json:"lines"`
}

type machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Go        string `json:"go"`
	Redis     string `json:"redis"`
}

// row is a line as it was measured.
type row struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit,omitzero"`
	Yardstick string  `json:"yardstick,omitzero"`
	Goal      float64 `json:"goal,omitzero"`
	Atleast   bool    `json:"at_least,omitzero"` // else the goal is a bound from above
	Here      spread  `json:"here"`
	Base      *spread `json:"base,omitzero"`
}

// spread is of the rounds.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// measured are the figures of one round, by benchmark and unit.
type measured map[string]map[string]float64

var benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

// read adds what go test has printed.
func (m measured) read(text string) error {
	for one := range strings.Lines(text) {
		found := benchmarkLine.FindStringSubmatch(strings.TrimRight(one, "\n"))
		if found == nil {
			continue
		}
		values := strings.Fields(found[2])
		for i := 0; i+1 < len(values); i += 2 {
			n, err := strconv.ParseFloat(values[i], 64)
			if err != nil {
				return fmt.Errorf("%q: %w", one, err)
			}
			if m[found[1]] == nil {
				m[found[1]] = map[string]float64{}
			}
			m[found[1]][values[i+1]] = n
		}
	}
	return nil
}

func (m measured) figure(f figure) (sum float64, err error) {
	for _, unit := range f.Units {
		n, ok := m[f.Benchmark][unit]
		if !ok {
			return 0, fmt.Errorf("benchmark %s has not reported %s", f.Benchmark, unit)
		}
		sum += n
	}
	return sum, nil
}

// value is that of a line in one round.
func (m measured) value(l line) (float64, error) {
	v, err := m.figure(l.Value)
	if err != nil || l.Of == nil {
		return v, err
	}
	of, err := m.figure(*l.Of)
	if l.Speed {
		v, of = of, v
	}
	if err == nil && of == 0 {
		err = fmt.Errorf("%s: what it is divided by is 0", l.Name)
	}
	return v / of, err
}

func spreadOf(rounds []measured, l line) (s spread, err error) {
	var values []float64
	for _, m := range rounds {
		v, err := m.value(l)
		if err != nil {
			return s, err
		}
		values = append(values, v)
	}
	slices.Sort(values)
	n := len(values)
	return spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}, nil
}

// rowOf is a line after all rounds; base has none where nothing is compared with.
func rowOf(l line, here, base []measured) (r row, err error) {
	r = row{Name: l.Name, Unit: l.Unit, Yardstick: l.Says, Goal: l.Goal, Atleast: l.Speed}
	if r.Here, err = spreadOf(here, l); err != nil || len(base) == 0 {
		return r, err
	}
	was, err := spreadOf(base, l)
	r.Base = &was
	return r, err
}

const tableHead = "| measure | measured |"

// into puts the table into a page, in the place of the one that is there.
func (r *report) into(page string) string {
	before, rest, _ := strings.Cut(page, tableHead)
	_, after, _ := strings.Cut(rest, "\n\n")
	var table strings.Builder
	r.table(&table)
	return before + table.String() + "\n" + after
}

// table writes a report as it stands in the documentation.
func (r *report) table(w io.Writer) {
	more, rule := "", ""
	if r.Base != "" {
		more, rule = " at "+r.Base+" |", "---|"
	}
	fmt.Fprintf(w, "%s beside | to be reached |%s\n|---|---|---|---|%s\n", tableHead, more, rule)
	for _, l := range r.Lines {
		goal := "–"
		if l.Goal > 0 {
			goal = map[bool]string{true: "≥ ", false: "≤ "}[l.Atleast] + number(l.Goal) + unit(l.Unit)
		}
		fmt.Fprintf(w, "| %s | %s (%s to %s)%s | %s | %s |", l.Name, number(l.Here.Median), number(l.Here.Least), number(l.Here.Most), unit(l.Unit), cmp.Or(l.Yardstick, "–"), goal)
		if r.Base != "" {
			fmt.Fprintf(w, " %s%s |", number(l.Base.Median), unit(l.Unit))
		}
		fmt.Fprintln(w)
	}
}

func unit(u string) string {
	if u == "" {
		return ""
	}
	return " " + u
}

// number has two digits behind the point where they say something.
func number(n float64) string {
	if n >= 10 || n == float64(int(n)) {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}
