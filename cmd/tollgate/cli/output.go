package cli

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

// PrintJSON prints v, or a server's JSON as it came, indented for reading.
func (a *App) PrintJSON(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", text)
	return err
}

// Table lays out rows in columns for people. text/tabwriter cannot align one
// column to the right and its neighbour to the left, which money needs.
type Table struct {
	Indent string
	Right  []int // columns aligned to the right
	Rows   [][]string
}

// Row adds a row; the first is the heads.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = Printable(c)
	}
	t.Rows = append(t.Rows, cells)
}

// Damaged adds the row of an object of a list that is stored and cannot be read.
func (t *Table) Damaged(d *tollgate.DamagedObject) {
	heads := t.Rows[0]
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
	t.Row(row...)
}

func (t *Table) String() string {
	var widths []int
	for _, row := range t.Rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	aligned := make([]bool, len(widths))
	for _, i := range t.Right {
		if i < len(aligned) {
			aligned[i] = true
		}
	}
	var b strings.Builder
	for _, row := range t.Rows {
		var line strings.Builder
		line.WriteString(t.Indent)
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

// Moment is a time that need not be there.
func Moment(at tollgate.Instant) string {
	if at == 0 {
		return "-"
	}
	return at.String()
}

// Print writes the table to standard output.
func (a *App) Print(t *Table) error {
	_, err := fmt.Fprint(a.Stdout, t)
	return err
}

// Printable replaces what could steer a terminal: a server's text is shown,
// never obeyed.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

// ShellQuote makes a word of a POSIX shell of s, as it is where that is safe.
func ShellQuote(s string) string {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-./:@%+,=", r)
	}
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// PriceText is an amount with its currency.
func PriceText(m tollgate.Money) string { return m.String() + " " + string(m.Currency) }

// PayeeText is a payee, or that it was erased.
func PayeeText(p tollgate.KeptPayee) string {
	if p == "" {
		return "(erased)"
	}
	return string(p)
}

// Plus is an amount with its sign, also where it is positive.
func Plus(text string, sign int) string {
	if sign > 0 {
		return "+" + text
	}
	return text
}

// Deref is a text that need not be there.
func Deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// Raw keeps the JSON of list entries as it came.
type Raw = jsontext.Value

// Joined is a list as one text, empty for what it means when it is empty.
func Joined[T ~string](list []T, empty string) string {
	if len(list) == 0 {
		return empty
	}
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = string(name)
	}
	return strings.Join(names, ", ")
}
