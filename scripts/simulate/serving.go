package simulate

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/scripts/simulate/draw"
)

// packet is what a process has written at once.
type packet struct {
	commands [][]string
	tie      uint64
	before   [][]string // what a bend has Redis do first
}

// held is a command that waits in Redis.
type held struct {
	words   []string
	streams []string
	rest    packet
	answers []byte
	number  int
}

// atOnce are answered at once: clients hold locks while they ask, and a lock that is
// waited for stops the bubble's clock. They change nothing.
var atOnce = map[string]bool{"HELLO": true, "CLIENT": true, "SUBSCRIBE": true, "UNSUBSCRIBE": true, "SELECT": true, "AUTH": true}

// greet answers what is answered at once.
func (w *wire) greet(c *conn, words []string) []byte {
	switch strings.ToUpper(words[0]) {
	case "SUBSCRIBE", "UNSUBSCRIBE":
		var answer bytes.Buffer
		for _, channel := range words[1:] {
			c.subscribe = slices.DeleteFunc(c.subscribe, func(s string) bool { return s == channel })
			if strings.EqualFold(words[0], "SUBSCRIBE") {
				c.subscribe = append(c.subscribe, channel)
			}
			pushed(&answer, c.resp3, strings.ToLower(words[0]), channel)
			fmt.Fprintf(&answer, ":%d\r\n", len(c.subscribe))
		}
		return answer.Bytes()
	case "HELLO":
		c.resp3 = len(words) > 1 && words[1] == "3"
	}
	return w.redis.run(c.session, words)
}

// pushed begins a push of three parts.
func pushed(to *bytes.Buffer, resp3 bool, words ...string) {
	kind := '*'
	if resp3 {
		kind = '>'
	}
	fmt.Fprintf(to, "%c3\r\n", kind)
	for _, word := range words {
		fmt.Fprintf(to, "$%d\r\n%s\r\n", len(word), word)
	}
}

// arrive has Redis look at a packet.
func (w *wire) arrive(c *conn, p packet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.broken() && !w.trouble.late(w, p.tie) {
		return
	}
	if c.held != nil {
		c.waiting = append(c.waiting, p)
		return
	}
	w.serve(c, p, nil)
}

// serve has Redis carry out commands, and sends the answers.
func (w *wire) serve(c *conn, p packet, answers []byte) {
	whole, changes := p, len(w.redis.effects)
	for _, words := range p.before {
		w.redis.do(words...)
	}
	for i, words := range p.commands {
		w.redis.until(w.now().Add(w.trouble.redisAhead))
		answer, waits := w.carryOut(c, words, p.tie)
		if waits != nil {
			waits.rest, waits.answers = packet{commands: p.commands[i+1:], tie: p.tie}, answers
			c.held = waits
			w.numbers++
			waits.number = w.numbers
			return
		}
		answers = append(answers, answer...)
	}
	if twice, later := w.trouble.doubles(w, c.process, p.tie); twice && len(w.redis.effects) > changes {
		answers = w.doubled(c, whole, answers, later)
	}
	w.pushNotices()
	w.reply(c, answers, whole, changes)
	w.release()
}

// doubled has a packet carried out a second time. What is answered then is what the
// process gets, unless that is later: then nobody does.
func (w *wire) doubled(c *conn, p packet, first []byte, later time.Duration) (answers []byte) {
	again := func(s *session) (answers []byte) {
		w.tell("it comes a second time from %s: %.90q", c.process.name, p.commands[0])
		for _, words := range p.commands {
			w.redis.until(w.now().Add(w.trouble.redisAhead))
			answer := w.redis.run(s, words)
			w.traced(c.process.name+" again", words, answer)
			answers = append(answers, answer...)
		}
		return answers
	}
	if later == 0 {
		return again(c.session)
	}
	w.push(time.Now().Add(later), draw.Mixed(p.tie+3), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		again(newSession())
		w.pushNotices()
		w.release()
	})
	return first
}

// reply sends an answer, unless it is to be lost. before is how many changes there were
// before its commands.
func (w *wire) reply(c *conn, answers []byte, p packet, before int) {
	tie := p.tie
	if len(w.redis.effects) > before && w.trouble.loses(w, c.process, tie) {
		w.tell("the answer to %s is lost: %.90q", c.process.name, p.commands[0])
		c.breakOff()
		return
	}
	arrival := latest(c.answered, time.Now().Add(w.trouble.travel(w, c.process, draw.Mixed(tie+1))))
	c.answered = arrival
	redis, changes, event := w.redis, len(w.redis.effects), w.redis.lastEvent(before)
	w.push(arrival, draw.Mixed(tie), func() {
		w.mu.Lock()
		if redis != w.redis { // it is another one by now
			c.breakOff()
			w.mu.Unlock()
			return
		}
		if !c.broken() { // whoever reads something knows of it, too
			w.known = max(w.known, changes)
			w.knows[c.process] = max(w.knows[c.process], event)
		}
		w.mu.Unlock()
		c.receive(answers)
		if w.bend.told != nil && !c.broken() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.bend.told(w, c, p.commands, answers)
		}
	})
}

// bend is what a process would do that has a bug which no script can have: it looks at
// what is sent, and does something once it is answered.
type bend struct {
	alter func(source string) string
	sent  func(w *wire, commands [][]string) (before [][]string)
	// answered is what a process takes an answer for.
	answered func(w *wire, words []string, answer []byte) []byte
	told     func(w *wire, c *conn, commands [][]string, answers []byte)
}

// carryOut has Redis carry out one command.
func (w *wire) carryOut(c *conn, words []string, tie uint64) ([]byte, *held) {
	w.commands++
	name := strings.ToUpper(words[0])
	if refusal := w.trouble.refusal(w, c.process, name); refusal != "" {
		w.traced(c.process.name, words, []byte(refusal))
		return []byte("-" + refusal + "\r\n"), nil
	}
	block, bare := time.Duration(0), words
	if name == "XREADGROUP" || name == "XREAD" {
		block, bare = blocking(words)
	}
	answer := w.redis.run(c.session, bare)
	if w.bend.answered != nil {
		answer = w.bend.answered(w, bare, answer)
	}
	if block > 0 && (bytes.Equal(answer, []byte("*-1\r\n")) || bytes.Equal(answer, []byte("_\r\n")) || bytes.Equal(answer, []byte("$-1\r\n"))) {
		at := slices.IndexFunc(bare, func(s string) bool { return strings.EqualFold(s, "STREAMS") })
		streams := bare[at+1:]
		h := &held{words: bare, streams: streams[:len(streams)/2]}
		w.push(time.Now().Add(block), draw.Mixed(tie+2), func() { w.waited(c, h, answer) })
		return nil, h
	}
	w.traced(c.process.name, words, answer)
	return answer, nil
}

// blocking takes the waiting out of a command: the wire waits.
func blocking(words []string) (time.Duration, []string) {
	at := slices.IndexFunc(words, func(s string) bool { return strings.EqualFold(s, "BLOCK") })
	if at < 0 {
		return 0, words
	}
	ms, _ := strconv.Atoi(words[at+1])
	return time.Duration(ms) * time.Millisecond, slices.Concat(words[:at], words[at+2:])
}

// waited ends the wait of a command that nothing came for.
func (w *wire) waited(c *conn, h *held, nothing []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.held == h {
		w.resume(c, nothing)
	}
}

// resume answers a command that waited, and what was written behind it.
func (w *wire) resume(c *conn, answer []byte) {
	h := c.held
	c.held = nil
	w.traced(c.process.name, h.words, answer)
	w.serve(c, h.rest, append(h.answers, answer...))
	for len(c.waiting) > 0 && c.held == nil {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		w.serve(c, next, nil)
	}
}

// release looks at those who wait for what has been added.
func (w *wire) release() {
	for len(w.redis.added) > 0 {
		added := w.redis.added
		w.redis.added = map[string]bool{}
		var ready []*conn
		for _, c := range w.conns {
			if c.held != nil && slices.ContainsFunc(c.held.streams, func(s string) bool { return added[s] }) {
				ready = append(ready, c)
			}
		}
		slices.SortFunc(ready, func(a, b *conn) int { return a.held.number - b.held.number })
		for _, c := range ready {
			if c.broken() {
				c.held = nil
				continue
			}
			answer := w.redis.run(c.session, c.held.words)
			if len(answer) > 5 {
				w.resume(c, answer)
			}
		}
	}
}

// pushNotices sends what was published.
func (w *wire) pushNotices() {
	for _, n := range w.redis.told {
		for _, c := range w.conns {
			if !slices.Contains(c.subscribe, n.channel) || c.broken() {
				continue
			}
			var text bytes.Buffer
			pushed(&text, c.resp3, "message", n.channel, n.text)
			tie := w.number(c.process, [][]string{{"message", n.channel, n.text}})
			c.answered = latest(c.answered, time.Now().Add(w.trouble.travel(w, c.process, tie)))
			w.push(c.answered, tie, func() { c.receive(text.Bytes()) })
		}
	}
	w.redis.told = nil
}
