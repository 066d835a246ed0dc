package simulate

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing/synctest"
	"time"
)

// Wire is between the processes and Redis, and has the only clock. It is the one
// seam of a simulation: everything that is said passes it one after the other, at
// moments that it chooses.
//
// What happens next happens when everybody waits (synctest.Wait). Then the wire makes
// one thing happen, and again waits until everybody waits. Times of arrival are drawn
// from the seed and from what is said, to the nanosecond, so that no two are the same
// and it does not matter which goroutine said it first.
type wire struct {
	chance chance
	origin time.Time // the bubble's moment that is start
	start  time.Time
	leapt  atomic.Int64

	mu     sync.Mutex
	events events
	wake   chan struct{}
	said   map[string]int // how often a process has said something

	redis   *machine
	known   int // how many of its changes somebody may know of
	bend    bend
	conns   []*conn // in the order in which they were made
	numbers int
	trouble trouble

	commands int
	trace    uint64
	packet   uint64 // of the trace
	lines    []string
	log      func(string, ...any) // the story; nil: nobody reads it
}

func newWire(seed chance, start time.Time) *wire {
	return &wire{
		chance: seed, origin: time.Now(), start: start, wake: make(chan struct{}, 1), said: map[string]int{},
		redis: newMachine(start), trouble: newTrouble(),
	}
}

// now is the time that everybody would know whose clock is right.
func (w *wire) now() time.Time {
	return w.start.Add(time.Since(w.origin) + time.Duration(w.leapt.Load())).UTC()
}

// leap has time pass for all clocks, while everybody sleeps.
func (w *wire) leap(d time.Duration) { w.leapt.Add(int64(d)) }

// event is something that will happen.
type event struct {
	at   time.Time // of the bubble
	tie  uint64
	what func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].tie < e[j].tie
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// at has something happen at a moment of the bubble.
func (w *wire) at(when time.Time, tie uint64, what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.push(when, tie, what)
}

func (w *wire) push(when time.Time, tie uint64, what func()) {
	heap.Push(&w.events, event{when, tie, what})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// endless is longer than a story can last.
const endless = 3 * time.Hour

// run makes everything happen until it is over.
func (w *wire) run(over <-chan struct{}) {
	for events := 0; ; {
		synctest.Wait()
		select {
		case <-over:
			return
		default:
		}
		w.mu.Lock()
		if events++; events%collects == 0 {
			collect()
		}
		if time.Since(w.origin) > endless {
			panic("simulate: the story does not end") // and tells who holds it up
		}
		if len(w.events) > 0 && !w.events[0].at.After(time.Now()) {
			next := heap.Pop(&w.events).(event)
			w.mu.Unlock()
			next.what()
			w.traceOn()
			continue
		}
		wait := time.Hour
		if len(w.events) > 0 {
			wait = time.Until(w.events[0].at)
		}
		w.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-over:
		}
		timer.Stop()
	}
}

// conn is a connection of a process to Redis.
type conn struct {
	wire    *wire
	process *process
	session *session

	// Of the wire, under its lock.
	begun     []byte // of a command whose end has not been written yet
	sent      time.Time
	last      uint64 // number of what was sent last
	answered  time.Time
	waiting   []packet // that Redis does not look at: it holds the answer to one before
	held      *held
	subscribe []string
	resp3     bool

	mu     sync.Mutex
	in     []byte
	closed bool // by the process
	cut    bool // by somebody else
	until  time.Time
	news   chan struct{}
}

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

var errCut = errors.New("connection reset by peer")

// dial connects a process.
func (w *wire) dial(p *process) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.ended || w.trouble.refuses(p) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	c := &conn{wire: w, process: p, session: newSession(), news: make(chan struct{}, 1)}
	w.conns = append(w.conns, c)
	return c, nil
}

// drop forgets a connection. The lock is held.
func (w *wire) drop(c *conn) {
	w.conns = slices.DeleteFunc(w.conns, func(other *conn) bool { return other == c })
}

// Write sends commands.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.closed || c.cut {
		c.mu.Unlock()
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: errCut}
	}
	c.mu.Unlock()
	w := c.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	c.begun = append(c.begun, b...)
	var sent [][]string
	for {
		words, size, err := parseCommand(c.begun)
		if err != nil {
			return 0, err
		}
		if size == 0 {
			break
		}
		c.begun = c.begun[size:]
		if len(sent) == 0 && atOnce[strings.ToUpper(words[0])] {
			c.hear(w.greet(c, words))
			continue
		}
		sent = append(sent, words)
	}
	if len(sent) == 0 {
		return len(b), nil
	}
	p := packet{commands: sent, tie: w.number(c.process, sent)}
	if w.bend.sent != nil {
		p.before = w.bend.sent(w, sent)
	}
	arrival := latest(c.sent, time.Now().Add(w.trouble.travel(w, c.process, p.tie)))
	c.sent, c.last = arrival, p.tie
	w.push(arrival, p.tie, func() { w.arrive(c, p) })
	return len(b), nil
}

// atOnce are answered at once: clients hold locks while they ask, and a lock that is
// waited for stops the bubble's clock. They change nothing.
var atOnce = map[string]bool{"HELLO": true, "CLIENT": true, "SUBSCRIBE": true, "UNSUBSCRIBE": true, "SELECT": true, "AUTH": true}

func latest(after, at time.Time) time.Time {
	if at.After(after) {
		return at
	}
	return after.Add(1)
}

// number is one for what a process says: of the words, whatever their order, and of
// how often it has said them before.
func (w *wire) number(p *process, commands [][]string) uint64 {
	var sum uint64
	for _, words := range commands {
		sum += fingerprint(words)
	}
	key := p.name + strconv.FormatUint(sum, 36)
	w.said[key]++
	return w.chance.of(p.name, sum, w.said[key])
}

// fingerprint is the same in whatever order words stand behind the first: some are
// pairs out of a map.
func fingerprint(words []string) uint64 {
	sum := uint64(len(words))
	for _, word := range words {
		h := fnv.New64a()
		_, _ = io.WriteString(h, word)
		sum += mixed(h.Sum64())
	}
	return mixed(sum)
}

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
	w.pushNotices()
	w.reply(c, answers, whole, len(w.redis.effects) > changes)
	w.release()
}

// reply sends an answer, unless it is to be lost.
func (w *wire) reply(c *conn, answers []byte, p packet, changed bool) {
	tie := p.tie
	if changed && w.trouble.loses(w, c.process, tie) {
		w.tell("the answer to %s is lost: %.90q", c.process.name, p.commands[0])
		c.breakOff()
		return
	}
	arrival := latest(c.answered, time.Now().Add(w.trouble.travel(w, c.process, mixed(tie+1))))
	c.answered = arrival
	redis, changes := w.redis, len(w.redis.effects)
	w.push(arrival, mixed(tie), func() {
		w.mu.Lock()
		if redis == w.redis && !c.broken() {
			w.known = max(w.known, changes)
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

// crash has Redis go on with a beginning of what it has done: all that anybody may know
// of, and some of what nobody does. With back it goes back further.
func (w *wire) crash(f Fault) {
	count := len(w.redis.effects)
	if unknown := count - w.known; unknown > 0 {
		count -= int(w.chance.of("crash", uint64(f.At)) % uint64(unknown+1))
	}
	if f.Back > 0 {
		count = max(1, w.known-f.Back)
	}
	w.tell("redis crashes after %d changes and has %d of them", len(w.redis.effects), count)
	w.cutAll(nil)
	before := w.redis
	w.redis = before.prefix(count)
	w.known = min(w.known, count)
	before.close()
}

// bend is what a process would do that has a bug which no script can have: it looks at
// what is sent, and does something once it is answered.
type bend struct {
	alter func(source string) string
	sent  func(w *wire, commands [][]string) (before [][]string)
	told  func(w *wire, c *conn, commands [][]string, answers []byte)
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
	if block > 0 && (bytes.Equal(answer, []byte("*-1\r\n")) || bytes.Equal(answer, []byte("_\r\n")) || bytes.Equal(answer, []byte("$-1\r\n"))) {
		at := slices.IndexFunc(bare, func(s string) bool { return strings.EqualFold(s, "STREAMS") })
		streams := bare[at+1:]
		h := &held{words: bare, streams: streams[:len(streams)/2]}
		w.push(time.Now().Add(block), mixed(tie+2), func() { w.waited(c, h, answer) })
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

// traced notes a command and its answer, of the packet that is being carried out.
func (w *wire) traced(who string, words []string, answer []byte) {
	lines := strings.Split(string(answer), "\r\n")
	w.packet += w.chance.of(who, fingerprint(words), fingerprint(lines), uint64(w.now().UnixNano()))
	if traceTo != nil {
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
	w.trace, w.packet = mixed(w.trace^w.packet), 0
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

// receive is what arrives at the process, when it is not frozen.
func (c *conn) receive(b []byte) {
	if thaw := c.process.thaws(); time.Now().Before(thaw) {
		c.wire.mu.Lock()
		defer c.wire.mu.Unlock()
		c.answered = latest(c.answered, thaw)
		c.wire.push(c.answered, 0, func() { c.receive(b) })
		return
	}
	c.hear(b)
}

func (c *conn) hear(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cut {
		c.in = append(c.in, b...)
	}
	c.notify()
}

func (c *conn) notify() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// broken says whether nobody hears an answer any more.
func (c *conn) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.cut
}

// breakOff ends a connection for both sides. The wire's lock is held.
func (c *conn) breakOff() {
	c.wire.drop(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	c.notify()
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		n, ended, until := copy(b, c.in), c.closed, c.until
		c.in = c.in[n:]
		cut := c.cut
		c.mu.Unlock()
		switch {
		case ended:
			return 0, net.ErrClosed
		case n > 0:
			return n, nil
		case cut:
			return 0, io.EOF
		case !until.IsZero() && !time.Now().Before(until):
			return 0, os.ErrDeadlineExceeded
		}
		c.sleep(until)
	}
}

func (c *conn) sleep(until time.Time) {
	if until.IsZero() {
		<-c.news
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-c.news:
	case <-timer.C:
	}
}

func (c *conn) Close() error {
	c.wire.mu.Lock()
	c.wire.drop(c)
	c.wire.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.notify()
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	c.notify()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error  { return c.SetReadDeadline(t) }
func (*conn) SetWriteDeadline(time.Time) error { return nil } // there is always room
func (*conn) LocalAddr() net.Addr              { return address{} }
func (*conn) RemoteAddr() net.Addr             { return address{} }

// SyscallConn is for the Redis client, which looks whether an idle connection has
// ended before it uses it, where that is a socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

type rawConn struct{ *conn }

func (r rawConn) Read(func(uintptr) bool) error {
	if r.broken() {
		return errCut
	}
	return nil
}
func (rawConn) Write(func(uintptr) bool) error { return errCut }
func (rawConn) Control(func(uintptr)) error    { return nil }

type address struct{}

func (address) Network() string { return "tcp" }
func (address) String() string  { return "simulated:6379" }

var errProtocol = errors.New("no command in Redis' protocol")

// parseCommand reads a command at the beginning of b, and how long it is; 0 where
// its end is not there yet.
func parseCommand(b []byte) (words []string, size int, err error) {
	line := func(kind byte) (int, bool, error) {
		end := bytes.IndexByte(b[size:], '\n')
		if end < 0 {
			return 0, false, nil
		}
		text := b[size : size+end+1]
		size += end + 1
		if len(text) < 4 || text[0] != kind {
			return 0, false, errProtocol
		}
		n, err := strconv.Atoi(string(text[1 : len(text)-2]))
		return n, true, err
	}
	count, ok, err := line('*')
	if !ok || err != nil {
		return nil, 0, err
	}
	for range count {
		n, ok, err := line('$')
		if !ok || err != nil {
			return nil, 0, err
		}
		if len(b) < size+n+2 {
			return nil, 0, nil
		}
		words = append(words, string(b[size:size+n]))
		size += n + 2
	}
	return words, size, nil
}

// dialer is a rediskv.Options.Dial.
func (w *wire) dialer(p *process) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return w.dial(p) }
}
