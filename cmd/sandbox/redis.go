package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"tollgate/rediskv"
)

// Redis is an embedded Redis that says what has changed in it, as commands that
// make the same changes in another one: the effects of scripts, not their calls,
// which have random ids and the time in them.
//
// What a consumer of a group has been handed is no change. Such entries are handed
// out again after a Replay, as they are to a worker that takes over: Tollgate
// deletes an entry with what is done about it.
type Redis struct {
	clock func() time.Time // real time
	mini  *miniredis.Miniredis

	// gate lets one command after the other run, but for those that wait. So the
	// effects stand in the order in which they were made, and those of a script
	// together.
	gate     sync.Mutex
	changes  bytes.Buffer
	passed   time.Duration // of the times to live, not among changes yet
	rest     time.Duration // below a millisecond, which has not passed yet
	replayed bool          // what runs has been recorded
	now      time.Time     // for the command that runs
	noted    time.Time     // what changes say it is
}

// passes is the change that is no command of Redis: times to live get shorter by so
// many milliseconds, and it is this moment of real time (Unix microseconds), of which
// the ids of a stream's entries are made.
const passes = "FASTFORWARD"

// waiting are the commands that may wait. None of them changes what is kept.
var waiting = []string{"XREAD", "XREADGROUP", "SUBSCRIBE", "SSUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE"}

// unkept are the other commands that change nothing of what is kept. A script's
// effects pass by one by one.
var unkept = []string{
	"HELLO", "CLIENT", "AUTH", "SELECT", "PING", "ECHO", "COMMAND", "CONFIG", "INFO", "TIME", "CLUSTER", "READONLY", "ROLE", "WAIT",
	"SCRIPT", "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "PUBLISH", "SPUBLISH",
	"XCLAIM", "XAUTOCLAIM", "XPENDING", "XINFO",
}

// NewRedis makes an empty one.
func NewRedis(clock func() time.Time) *Redis {
	r := &Redis{clock: clock, mini: miniredis.NewMiniRedis()}
	c, err := r.mini.Dial() // has it make its table of commands
	if err != nil {
		panic(err) // a pipe in memory
	}
	_ = c.Close()
	r.mini.Server().SetPreHook(r.record)
	return r
}

// record is told of every command that is about to run, those of scripts too.
func (r *Redis) record(_ *server.Peer, name string, args ...string) bool {
	if r.replayed || slices.Contains(waiting, name) || !r.changing(name, args) {
		return false
	}
	if r.passed > 0 || !r.now.Equal(r.noted) {
		appendPassed(&r.changes, r.passed, r.now)
		r.passed, r.noted = 0, r.now
	}
	appendCommand(&r.changes, append([]string{name}, args...)...)
	return false
}

func (r *Redis) changing(name string, args []string) bool {
	if name == "XGROUP" { // consumers come and go
		return len(args) > 0 && (strings.EqualFold(args[0], "CREATE") || strings.EqualFold(args[0], "DESTROY"))
	}
	if len(args) > 0 && args[0] == rediskv.HeartbeatKey { // one every second, of which nothing need be known later
		return false
	}
	return !slices.Contains(unkept, name) && !r.mini.IsReadOnlyCommand(name)
}

func appendPassed(b *bytes.Buffer, by time.Duration, until time.Time) {
	appendCommand(b, passes, strconv.FormatInt(by.Milliseconds(), 10), strconv.FormatInt(until.UnixMicro(), 10))
}

// at has the next command run at a moment.
func (r *Redis) at(now time.Time) {
	r.now = now.Truncate(time.Microsecond)
	r.mini.SetTime(r.now)
}

func appendCommand(b *bytes.Buffer, words ...string) {
	fmt.Fprintf(b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(b, "$%d\r\n%s\r\n", len(w), w)
	}
}

// Dial connects a client.
func (r *Redis) Dial(context.Context, string, string) (net.Conn, error) {
	client, here := net.Pipe()
	go r.serve(here)
	return client, nil
}

func (r *Redis) serve(c net.Conn) {
	defer c.Close()
	out := newOutbox(c)
	defer out.close()
	peer, in := server.NewPeer(bufio.NewWriter(out)), bufio.NewReader(c)
	defer r.dispatch(peer, []string{"UNSUBSCRIBE"})
	transaction := false
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		name := strings.ToUpper(words[0])
		switch name {
		case "MULTI":
			transaction = true
		case "EXEC", "DISCARD":
			transaction = false
		}
		if transaction && r.changing(name, words[1:]) { // its effects would not stand where they happen
			peer.WriteError("ERR a transaction that changes anything is not for this Redis")
		} else {
			r.dispatch(peer, words)
		}
		peer.Flush()
		if peer.Closed() {
			return
		}
	}
}

// outbox takes answers at once. A pipe has no room: a client that sends many
// commands before it reads would wait for Redis, and Redis for it.
type outbox struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte
	closed  bool
}

func newOutbox(to io.Writer) *outbox {
	b := new(outbox)
	b.changed = sync.NewCond(&b.mu)
	go func() {
		for {
			b.mu.Lock()
			for len(b.waiting) == 0 && !b.closed {
				b.changed.Wait()
			}
			next := b.waiting
			b.waiting = nil
			b.mu.Unlock()
			if len(next) == 0 {
				return
			}
			if _, err := to.Write(next); err != nil {
				return
			}
		}
	}()
	return b
}

func (b *outbox) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, p...)
	b.changed.Signal()
	return len(p), nil
}

func (b *outbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.changed.Signal()
}

func (r *Redis) dispatch(peer *server.Peer, words []string) {
	if !slices.Contains(waiting, strings.ToUpper(words[0])) {
		r.gate.Lock()
		defer r.gate.Unlock()
		r.at(r.clock())
	}
	r.mini.Server().Dispatch(peer, words)
}

// FastForward lets times to live pass: they do not by themselves. They pass in whole
// milliseconds, as changes have them; what is less waits for the next time.
func (r *Redis) FastForward(by time.Duration) {
	r.gate.Lock()
	defer r.gate.Unlock()
	by += r.rest
	by, r.rest = by.Truncate(time.Millisecond), by%time.Millisecond
	r.mini.FastForward(by)
	r.passed += by
}

// Changes are what has changed since the last call, nil for nothing. That time has
// passed is none of it alone.
func (r *Redis) Changes() []byte {
	r.gate.Lock()
	defer r.gate.Unlock()
	if r.changes.Len() == 0 {
		return nil
	}
	b := bytes.Clone(r.changes.Bytes())
	r.changes.Reset()
	return b
}

// Replay makes changes of another Redis here, and returns the moment of the last, of
// real time. After an error nothing is as it was there.
func (r *Redis) Replay(changes []byte) (time.Time, error) {
	r.gate.Lock()
	defer r.gate.Unlock()
	r.replayed = true
	defer func() { r.replayed = false }()
	peer, in := server.NewPeer(bufio.NewWriter(io.Discard)), bufio.NewReader(bytes.NewReader(changes))
	for {
		words, err := readCommand(in)
		if errors.Is(err, io.EOF) {
			return r.now, nil
		} else if err != nil {
			return r.now, fmt.Errorf("what was kept cannot be read: %w", err)
		}
		switch name := strings.ToUpper(words[0]); {
		case name == passes && len(words) == 3:
			by, err := strconv.ParseInt(words[1], 10, 64)
			at, err2 := strconv.ParseInt(words[2], 10, 64)
			if err := errors.Join(err, err2); err != nil {
				return r.now, fmt.Errorf("what was kept cannot be read: %w", err)
			}
			if by > 0 {
				r.mini.FastForward(time.Duration(by) * time.Millisecond)
			}
			r.at(time.UnixMicro(at))
		case !r.mini.Server().IsRegisteredCommand(name) || slices.Contains(waiting, name) || !r.changing(name, words[1:]):
			return r.now, fmt.Errorf("what was kept has %q in it, which changes nothing", words[0])
		default:
			r.mini.Server().Dispatch(peer, words)
		}
	}
}

// Snapshot is everything as changes.
func (r *Redis) Snapshot() ([]byte, error) {
	r.gate.Lock()
	defer r.gate.Unlock()
	return r.snapshot()
}

// Rewritten is a Snapshot in place of what Changes would return.
func (r *Redis) Rewritten() ([]byte, error) {
	r.gate.Lock()
	defer r.gate.Unlock()
	whole, err := r.snapshot()
	if err == nil {
		r.changes.Reset()
		r.passed, r.noted = 0, r.now
	}
	return whole, err
}

func (r *Redis) snapshot() ([]byte, error) {
	var b bytes.Buffer
	r.at(r.clock())
	appendPassed(&b, 0, r.now)
	for _, key := range r.mini.Keys() {
		if key == rediskv.HeartbeatKey { // as changing has it
			continue
		}
		if err := r.appendKey(&b, key); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if ttl := r.mini.TTL(key); ttl > 0 {
			appendCommand(&b, "PEXPIRE", key, strconv.FormatInt(ttl.Milliseconds(), 10))
		}
	}
	return b.Bytes(), nil
}

func (r *Redis) appendKey(b *bytes.Buffer, key string) error {
	switch kind := r.mini.Type(key); kind {
	case "string":
		value, err := r.mini.Get(key)
		appendCommand(b, "SET", key, value)
		return err
	case "hash":
		fields, err := r.mini.HKeys(key)
		words := []string{"HSET", key}
		for _, f := range fields {
			words = append(words, f, r.mini.HGet(key, f))
		}
		appendCommand(b, words...)
		return err
	case "list":
		values, err := r.mini.List(key)
		appendCommand(b, append([]string{"RPUSH", key}, values...)...)
		return err
	case "set":
		members, err := r.mini.SMembers(key)
		appendCommand(b, append([]string{"SADD", key}, members...)...)
		return err
	case "zset":
		scores, err := r.mini.SortedSet(key)
		members, _ := r.mini.ZMembers(key)
		words := []string{"ZADD", key}
		for _, m := range members {
			words = append(words, score(scores[m]), m)
		}
		appendCommand(b, words...)
		return err
	case "stream":
		return r.appendStream(b, key)
	default:
		return fmt.Errorf("a %s cannot be kept", kind)
	}
}

func score(f float64) string {
	if math.IsInf(f, 0) {
		return map[bool]string{true: "+inf", false: "-inf"}[f > 0]
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// appendStream makes a stream, its last id, and its groups, which begin before its
// first entry.
func (r *Redis) appendStream(b *bytes.Buffer, key string) error {
	entries, err := r.mini.Stream(key)
	if err != nil {
		return err
	}
	for _, e := range entries {
		appendCommand(b, append([]string{"XADD", key, e.ID}, e.Values...)...)
	}
	var info struct{ stream, groups any }
	for kind, to := range map[string]*any{"STREAM": &info.stream, "GROUPS": &info.groups} {
		var answer bytes.Buffer
		w := bufio.NewWriter(&answer)
		r.mini.Server().Dispatch(server.NewPeer(w), []string{"XINFO", kind, key})
		w.Flush()
		if *to, err = server.ParseReply(bufio.NewReader(&answer)); err != nil {
			return err
		}
	}
	last, _ := field(info.stream, "last-generated-id").(string)
	if last != "" && (len(entries) == 0 || entries[len(entries)-1].ID != last) {
		appendCommand(b, "XADD", key, last, "", "")
		appendCommand(b, "XDEL", key, last)
	}
	groups, _ := info.groups.([]any)
	for _, g := range groups {
		name, _ := field(g, "name").(string)
		appendCommand(b, "XGROUP", "CREATE", key, name, "0", "MKSTREAM")
	}
	return nil
}

// field is a value of an answer that lists names and values.
func field(answer any, name string) any {
	list, _ := answer.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == name {
			return list[i+1]
		}
	}
	return nil
}

var errProtocol = errors.New("no command in Redis' protocol")

// readCommand reads an array of bulk strings, io.EOF at the end.
func readCommand(r *bufio.Reader) ([]string, error) {
	count, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, 0, min(count, 64))
	for range count {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, cutOff(err)
		}
		var word strings.Builder
		if _, err := io.CopyN(&word, r, int64(size)); err != nil {
			return nil, cutOff(err)
		}
		if _, err := r.Discard(2); err != nil {
			return nil, cutOff(err)
		}
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errProtocol
	}
	return words, nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		if line != "" {
			err = cutOff(err)
		}
		return 0, err
	}
	if line[0] != kind || !strings.HasSuffix(line, "\r\n") {
		return 0, errProtocol
	}
	n, err := strconv.Atoi(line[1 : len(line)-2])
	if err != nil || n < 0 {
		return 0, errProtocol
	}
	return n, nil
}
