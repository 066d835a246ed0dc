package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Command is what a client sent, as far as tests need it.
type Command struct {
	Name string // in upper case: EVALSHA
	Arg  string // its first argument, the SHA of an EVALSHA; "" without one
	Args []string
}

// readCommand reads one command of the Redis protocol: an array of bulk
// strings, or the words of a line. It returns the bytes as they came.
func readCommand(r *bufio.Reader) (Command, []byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return Command{}, nil, err
	}
	raw := bytes.Clone(line)
	if line[0] != '*' {
		return newCommand(strings.Fields(string(line))), raw, nil
	}
	count, err := length(line)
	if err != nil {
		return Command{}, nil, err
	}
	var words []string
	for range count {
		from := len(raw)
		if raw, err = appendReply(raw, r); err != nil {
			return Command{}, nil, err
		}
		_, word, _ := bytes.Cut(raw[from:], []byte("\r\n"))
		words = append(words, string(bytes.TrimSuffix(word, []byte("\r\n"))))
	}
	return newCommand(words), raw, nil
}

func newCommand(words []string) Command {
	var c Command
	if len(words) > 0 {
		c.Name = strings.ToUpper(words[0])
	}
	if len(words) > 1 {
		c.Arg, c.Args = words[1], words[1:]
	}
	return c
}

// readReply reads one whole reply. A push is a message that answers no
// command.
func readReply(r *bufio.Reader) (raw []byte, push bool, err error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, false, err
	}
	push = first[0] == '>'
	raw, err = appendReply(nil, r)
	return raw, push, err
}

// appendReply appends one value of RESP2 or RESP3 with all that it holds.
// Streamed values, which Redis does not send, are not known.
func appendReply(raw []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return raw, err
	}
	raw = append(raw, line...)
	switch line[0] {
	case '$', '=', '!': // bulk string, verbatim string, bulk error
		n, err := length(line)
		if err != nil || n < 0 {
			return raw, err
		}
		start := len(raw)
		raw = append(raw, make([]byte, n+2)...)
		_, err = io.ReadFull(r, raw[start:])
		return raw, err
	case '*', '~', '>', '%', '|': // array, set, push, map, attributes
		n, err := length(line)
		if err != nil {
			return raw, err
		}
		switch line[0] {
		case '%':
			n *= 2
		case '|': // stand before the value that they describe
			n = 2*n + 1
		}
		for range n {
			if raw, err = appendReply(raw, r); err != nil {
				return raw, err
			}
		}
	}
	return raw, nil
}

// length is the number behind the type byte; -1 stands for null.
func length(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil || n < -1 || n > 512<<20 {
		return 0, fmt.Errorf("read a Redis message: bad length %q", line)
	}
	return n, nil
}
