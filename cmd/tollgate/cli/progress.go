package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Progress says how far something is: on a terminal with a bar that stays on
// its line, else in lines, one for each tenth.
type Progress struct {
	w        io.Writer
	unit     string
	terminal bool
	width    int   // of the line that is on the terminal
	tenth    int64 // the last that was said; -1: none
}

const barWidth = 30

// NewProgress counts in a unit, such as bytes.
func NewProgress(w io.Writer, unit string) *Progress {
	p := &Progress{w: w, unit: unit, tenth: -1}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// Show says how much of a total is done; a total of 0 is not known.
func (p *Progress) Show(done, total int64) {
	tenth := int64(0)
	if total > 0 {
		tenth = min(done*10/total, 10)
	}
	text := fmt.Sprintf("%d of %d %s", done, total, p.unit)
	switch {
	case p.terminal:
		full := 0
		if total > 0 {
			full = int(min(done*barWidth/total, barWidth))
		}
		p.line("[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "] " + text)
	case tenth != p.tenth && total > 0:
		fmt.Fprintln(p.w, text)
	}
	p.tenth = tenth
}

// line puts text in the place of what is on the terminal's line.
func (p *Progress) line(text string) {
	fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = len(text)
}

// Say says something beside it.
func (p *Progress) Say(text string) {
	p.End()
	fmt.Fprintln(p.w, text)
}

// End leaves the terminal's line.
func (p *Progress) End() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
		p.width = 0
	}
}
