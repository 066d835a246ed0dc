package simulate

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// machine is an embedded Redis that runs one command after the other, when it is told
// to, and notes what each of them changes.
type machine struct {
	mini   *miniredis.Miniredis
	system *server.Peer // of commands that no process sent
	now    time.Time    // by its clock
	passed time.Time    // until when times to live have passed

	record  bool
	effects []effect // of each command that changed something
	current []string // of the command that runs: words, with their number in front of each command
	added   map[string]bool
	told    []notice

	altered map[string]string // scripts that run in place of others, by SHA-1
	alter   func(source string) string
}

// effect is what one command, or one script, has changed, as commands.
type effect struct {
	at    time.Time
	words []string
}

// notice is what was published.
type notice struct{ channel, text string }

// tick is how exact times to live are: each tick looks at every key that has one.
const tick = time.Second

func newMachine(now time.Time) *machine {
	m := &machine{mini: miniredis.NewMiniRedis(), now: now, passed: now, added: map[string]bool{}, altered: map[string]string{}, record: true}
	c, err := m.mini.Dial() // has it make its table of commands
	if err != nil {
		panic(err) // a pipe in memory
	}
	_ = c.Close()
	m.mini.Seed(1)
	m.mini.SetTime(now)
	m.mini.Server().SetPreHook(m.note)
	m.system = server.NewPeer(bufio.NewWriter(io.Discard))
	return m
}

func (m *machine) close() { m.mini.Close() }

// note is told of every command that is about to run, those of scripts too.
func (m *machine) note(_ *server.Peer, name string, args ...string) bool {
	switch name {
	case "XADD":
		m.added[args[0]] = true
	case "PUBLISH":
		if len(args) == 2 {
			m.told = append(m.told, notice{args[0], args[1]})
		}
		return false
	case "EVAL", "EVALSHA", "MULTI", "EXEC", "SCRIPT", "XREADGROUP", "XREAD", "HELLO", "CLIENT", "TIME", "INFO", "CONFIG":
		return false
	}
	if m.record && !m.mini.IsReadOnlyCommand(name) {
		m.current = append(append(append(m.current, strconv.Itoa(len(args)+1)), name), args...)
	}
	return false
}

// until lets time pass to a moment.
func (m *machine) until(now time.Time) {
	if !now.After(m.now) {
		return
	}
	m.now = now
	m.mini.SetTime(now)
	if by := now.Sub(m.passed); by >= tick {
		m.mini.FastForward(by)
		m.passed = now
	}
}

// session is what Redis knows of a connection.
type session struct {
	peer   *server.Peer
	answer bytes.Buffer
	multi  bool     // in a transaction
	queued []string // what it will change
}

func newSession() *session {
	s := new(session)
	s.peer = server.NewPeer(bufio.NewWriter(&s.answer))
	return s
}

// run carries a command out and returns its answer.
func (m *machine) run(s *session, words []string) []byte {
	s.answer.Reset()
	m.mini.Server().Dispatch(s.peer, m.instead(words))
	s.peer.Flush()
	switch strings.ToUpper(words[0]) {
	case "MULTI":
		s.multi = true
	case "EXEC":
		m.current, s.queued, s.multi = append(s.queued, m.current...), nil, false
	case "DISCARD":
		s.queued, s.multi = nil, false
	}
	if s.multi { // what is queued has not happened yet
		s.queued, m.current = append(s.queued, m.current...), nil
	}
	if len(m.current) > 0 {
		m.effects, m.current = append(m.effects, effect{m.now, m.current}), nil
	}
	return bytes.Clone(s.answer.Bytes())
}

// do carries out a command that no process has sent, and returns its answer.
func (m *machine) do(words ...string) string {
	s := newSession()
	m.mini.Server().Dispatch(s.peer, words)
	s.peer.Flush()
	return s.answer.String()
}

// instead is the call of a script that runs in place of another.
func (m *machine) instead(words []string) []string {
	if m.alter == nil || len(words) < 3 {
		return words
	}
	switch strings.ToUpper(words[0]) {
	case "SCRIPT":
		if strings.EqualFold(words[1], "LOAD") {
			m.see(words[2])
		}
	case "EVAL":
		sum := m.see(words[1])
		if source := m.altered[sum]; source != "" {
			return append([]string{"EVAL", source}, words[2:]...)
		}
	case "EVALSHA":
		if source := m.altered[strings.ToLower(words[1])]; source != "" && m.has(words[1]) {
			return append([]string{"EVAL", source}, words[2:]...)
		}
	}
	return words
}

func (m *machine) has(sum string) bool {
	var answer bytes.Buffer
	w := bufio.NewWriter(&answer)
	m.mini.Server().Dispatch(server.NewPeer(w), []string{"SCRIPT", "EXISTS", sum})
	w.Flush()
	return strings.Contains(answer.String(), ":1")
}

// digest is what Redis calls a script.
func digest(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// see decides what becomes of a script.
func (m *machine) see(source string) string {
	sum := digest(source)
	if other := m.alter(source); other != source {
		m.altered[sum] = other
	}
	return sum
}

// lastEvent is how many changes there were up to the last one from a number on that has
// logged an event; 0: none has.
func (m *machine) lastEvent(from int) int {
	for i := len(m.effects); i > from; i-- {
		words := m.effects[i-1].words
		for at := 0; at < len(words); {
			n, _ := strconv.Atoi(words[at])
			if words[at+1] == "XADD" && strings.HasSuffix(words[at+2], ":events") {
				return i
			}
			at += 1 + n
		}
	}
	return 0
}

// forget is what Redis does with scripts when it starts.
func (m *machine) forget() { m.mini.Server().Dispatch(m.system, []string{"SCRIPT", "FLUSH"}) }

// prefix is a Redis that has what this one had after so many of its changes, as after
// a crash, a failover or a restore.
func (m *machine) prefix(count int) *machine {
	other := newMachine(m.effects[0].at)
	other.alter = m.alter
	other.record = false
	for _, e := range m.effects[:count] {
		other.until(e.at)
		for words := e.words; len(words) > 0; {
			n, _ := strconv.Atoi(words[0])
			other.mini.Server().Dispatch(other.system, words[1:1+n])
			words = words[1+n:]
		}
	}
	other.record = true
	other.effects = slices.Clone(m.effects[:count])
	clear(other.added)
	other.told = nil
	return other
}
