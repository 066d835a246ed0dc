package wasm

import (
	"encoding/binary"
	"fmt"

	"tollgate"
	"tollgate/wasm/abi"
)

// readReply reads a reply of n bytes from the window and appends its lines to
// dst. sum is that of all lines before. The error is a *refusal or says what is
// wrong with the reply; dst is then to be cut by the caller.
func (r *rule) readReply(dst []tollgate.FeeLine, w []byte, n int32, c tollgate.Currency, sum int64, labels *labels) ([]tollgate.FeeLine, error) {
	if n < 0 {
		return dst, fmt.Errorf("the module reports fault %d", n)
	}
	if n < abi.ReplyHeader || int64(n) > int64(len(w)) {
		return dst, fmt.Errorf("a reply of %d bytes", n)
	}
	le := binary.LittleEndian
	w = w[:n]
	status, count := le.Uint32(w), le.Uint32(w[4:])
	switch {
	case le.Uint64(w[8:]) != 0:
		return dst, fmt.Errorf("a reply whose bytes 8 to 15 are not zero")
	case status == abi.StatusRefusal && count == 0:
		return dst, readRefusal(w)
	case status != abi.StatusLines:
		return dst, fmt.Errorf("a reply of status %d", status)
	case count > abi.MaxLines:
		return dst, fmt.Errorf("%d lines, at most %d are allowed", count, abi.MaxLines)
	}
	text := abi.ReplyHeader + int(count)*abi.LineSize // text lies behind the lines
	if text > len(w) {
		return dst, fmt.Errorf("%d lines in a reply of %d bytes", count, n)
	}
	for at := abi.ReplyHeader; at < text; at += abi.LineSize {
		line := w[at : at+abi.LineSize]
		amount := int64(le.Uint64(line))
		if amount < 0 || amount > tollgate.MaxMinor {
			return dst, fmt.Errorf("a line of %d", amount)
		}
		if sum += amount; sum > tollgate.MaxMinor {
			return dst, fmt.Errorf("lines that add up to %d", sum)
		}
		if le.Uint64(line[16:]) != 0 {
			return dst, fmt.Errorf("a line whose last 8 bytes are not zero")
		}
		label := r.manifest.Label
		if le.Uint32(line[12:]) != 0 {
			b, err := replyText(w, text, le.Uint32(line[8:]), le.Uint32(line[12:]), abi.MaxLabel)
			if err != nil {
				return dst, fmt.Errorf("label: %w", err)
			}
			label = labels.text(b)
		}
		dst = append(dst, tollgate.FeeLine{
			Label:  label,
			Amount: tollgate.Money{Minor: amount, Currency: c},
			Rule:   r.ref.Rule,
		})
	}
	return dst, nil
}

func readRefusal(w []byte) error {
	if len(w) < abi.RefusalSize {
		return fmt.Errorf("a refusal of %d bytes", len(w))
	}
	le := binary.LittleEndian
	code, err := replyText(w, abi.RefusalSize, le.Uint32(w[16:]), le.Uint32(w[20:]), abi.MaxLabel)
	if err != nil {
		return fmt.Errorf("code: %w", err)
	}
	if !abi.RefusalCode.Match(code) {
		return fmt.Errorf("a refusal whose code is not of the form %s", abi.RefusalCode)
	}
	message, err := replyText(w, abi.RefusalSize, le.Uint32(w[24:]), le.Uint32(w[28:]), abi.MaxRefusalMessage)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	return &abi.Refusal{Code: string(code), Message: string(message)}
}

// replyText returns the bytes at off, which lie between the reply's fixed part
// and its end and are printable. The sum is taken in 64 bits.
func replyText(w []byte, from int, off, size uint32, limit int) ([]byte, error) {
	end := uint64(off) + uint64(size)
	if uint64(off) < uint64(from) || end > uint64(len(w)) {
		return nil, fmt.Errorf("text at %d of %d bytes lies outside %d…%d", off, size, from, len(w))
	}
	text := w[off:end]
	if !abi.Printable(text, limit) {
		return nil, fmt.Errorf("text is not 1 to %d bytes of printable UTF-8", limit)
	}
	return text, nil
}

// labels keeps the few texts that a module uses again and again, so that a
// line with a label of its own costs no allocation. It belongs to one
// instance.
type labels struct{ known []string }

func (l *labels) text(b []byte) string {
	for _, s := range l.known {
		if s == string(b) {
			return s
		}
	}
	s := string(b)
	if len(l.known) < abi.MaxLines {
		l.known = append(l.known, s)
	}
	return s
}
