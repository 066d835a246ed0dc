package simulate

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"tollgate/scripts/simulate/draw"
)

// number is one for what a process says: of the words, whatever their order, and of
// how often it has said them before.
func (w *wire) number(p *process, commands [][]string) uint64 {
	var sum uint64
	for _, words := range commands {
		sum += fingerprint(words)
	}
	key := draw.Hashed(p.name) ^ sum
	w.said[key]++
	return w.chance.Of(p.name, sum, w.said[key])
}

// fingerprint is the same in whatever order words stand behind the first: some are
// pairs out of a map.
func fingerprint(words []string) uint64 {
	sum := uint64(len(words))
	for _, word := range words {
		sum += draw.Mixed(draw.Hashed(word))
	}
	return draw.Mixed(sum)
}

// ofLines is the fingerprint of an answer's lines.
func ofLines(answer []byte) uint64 {
	sum := uint64(0)
	for line := range bytes.SplitSeq(answer, []byte("\r\n")) {
		sum += draw.Mixed(draw.Hashed(line))
	}
	return draw.Mixed(sum)
}

// traced notes a command and its answer, of the packet that is being carried out.
func (w *wire) traced(who string, words []string, answer []byte) {
	w.packet += w.chance.Of(who, fingerprint(words), ofLines(answer), uint64(w.now().UnixNano()))
	if traceTo != nil {
		lines := strings.Split(string(answer), "\r\n")
		slices.Sort(lines)
		w.lines = append(w.lines, fmt.Sprintf("%s %s %q %q\n", w.now().Format("15:04:05.000000000"), who, words, lines))
	}
}

// traceOn adds what was carried out to what makes this story this story. A packet may
// be made out of a map: the order in it does not count.
func (w *wire) traceOn() {
	if w.packet == 0 {
		return
	}
	w.trace, w.packet = draw.Mixed(w.trace^w.packet), 0
	if traceTo != nil {
		slices.Sort(w.lines)
		_, _ = io.WriteString(traceTo, strings.Join(w.lines, ""))
		w.lines = nil
	}
}

// traceTo is where a test writes everything that is said.
var traceTo io.Writer

func (w *wire) tell(format string, args ...any) {
	if w.log != nil {
		w.log(w.now().Format("15:04:05.000")+" "+format, args...)
	}
}
