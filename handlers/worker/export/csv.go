package export

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// csvLine appends the fields of one record of RFC 4180. encoding/csv would
// change them: with CRLF at the line's end it also rewrites line breaks within
// a field.
type csvLine struct {
	b     []byte
	begun bool
	err   error // the first of what could not be written
}

// plain appends a field as it is, in quotes where it needs them.
func (l *csvLine) plain(field string) {
	l.separate()
	if !needsQuotes(field) {
		l.b = append(l.b, field...)
		return
	}
	l.b = append(l.b, '"')
	for {
		i := strings.IndexByte(field, '"')
		if i < 0 {
			break
		}
		l.b = append(append(l.b, field[:i]...), `""`...)
		field = field[i+1:]
	}
	l.b = append(append(l.b, field...), '"')
}

// text appends what somebody outside chose, guarded.
func (l *csvLine) text(field string) { l.plain(guardCell(field)) }

func (l *csvLine) separate() {
	if l.begun {
		l.b = append(l.b, ',')
	}
	l.begun = true
}

func (l *csvLine) end() []byte { return append(l.b, '\r', '\n') }

// needsQuotes also quotes white space at the edges, which some readers trim.
func needsQuotes(field string) bool {
	if field == "" {
		return false
	}
	first, _ := utf8.DecodeRuneInString(field)
	last, _ := utf8.DecodeLastRuneInString(field)
	return unicode.IsSpace(first) || unicode.IsSpace(last) || strings.ContainsAny(field, "\",\r\n")
}

// guardCell puts an apostrophe before text that a spreadsheet could take for a
// formula: text whose first character, white space and apostrophes aside, is
// one of = + - @ or a full-width form of it, or that begins with a tab or line
// break. Taking one apostrophe away from such text gives the original back, so
// that nothing is lost.
func guardCell(text string) string {
	if !looksLikeFormula(text) {
		return text
	}
	return "'" + text
}

func looksLikeFormula(text string) bool {
	text = strings.TrimLeft(text, "'")
	if text == "" {
		return false
	}
	if text[0] == '\t' || text[0] == '\r' || text[0] == '\n' {
		return true
	}
	text = strings.TrimLeftFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\''
	})
	first, _ := utf8.DecodeRuneInString(text)
	return strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212", first) && first != utf8.RuneError
}
