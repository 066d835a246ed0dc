package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// printJSON prints v, or a server's JSON as it came, indented for reading.
func (a *app) printJSON(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", text)
	return err
}

// table lays out rows in columns for people. text/tabwriter cannot align one
// column to the right and its neighbour to the left, which money needs.
type table struct {
	indent string
	right  []int // columns aligned to the right
	rows   [][]string
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	t.rows = append(t.rows, cells)
}

// damaged adds the row of an object of a list that is stored and cannot be read.
func (t *table) damaged(d *tollgate.DamagedObject) {
	heads := t.rows[0]
	row := slices.Repeat([]string{"-"}, len(heads))
	id := len(heads) - 1
	for i, head := range heads {
		switch {
		case head == "STATUS" || head == "STATE":
			row[i] = "damaged"
		case head != "" && strings.Contains(strings.ToUpper(d.Object), head):
			id = i
		}
	}
	row[id] = d.ID
	t.row(row...)
}

func (t *table) String() string {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	aligned := make([]bool, len(widths))
	for _, i := range t.right {
		if i < len(aligned) {
			aligned[i] = true
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		line.WriteString(t.indent)
		for i, c := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if aligned[i] {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// moment is a time that need not be there.
func moment(at tollgate.Instant) string {
	if at == 0 {
		return "-"
	}
	return at.String()
}

// print writes the table to standard output.
func (a *app) print(t *table) error {
	_, err := fmt.Fprint(a.stdout, t)
	return err
}

// printable replaces what could steer a terminal: a server's text is shown,
// never obeyed.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

// shellQuote makes a word of a POSIX shell of s, as it is where that is safe.
func shellQuote(s string) string {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-./:@%+,=", r)
	}
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// priceText is an amount with its currency.
func priceText(m tollgate.Money) string { return m.String() + " " + string(m.Currency) }

func plus(text string, sign int) string {
	if sign > 0 {
		return "+" + text
	}
	return text
}

func deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// raw keeps the JSON of list entries as it came.
type raw = jsontext.Value

// joined is a list as one text, empty for what it means when it is empty.
func joined[T ~string](list []T, empty string) string {
	if len(list) == 0 {
		return empty
	}
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = string(name)
	}
	return strings.Join(names, ", ")
}
