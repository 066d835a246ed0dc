package handlers_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// keyspace is everything that Redis holds: each key with its type and value as
// text. Times to live are not part of it: they pass by themselves.
type keyspace map[string]string

// dump reads the whole keyspace, of every node, over the protocol itself:
// only rediskv and its tests know a client.
func dump(t testing.TB, url string) keyspace {
	t.Helper()
	all := make(keyspace)
	for addr := range strings.SplitSeq(strings.TrimPrefix(url, "redis://"), ",") {
		conn, err := net.DialTimeout("tcp", addr, 20*time.Second)
		must(t, conn, err)
		check(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		check(t, readKeyspace(conn, all))
		conn.Close()
	}
	return all
}

// command sends one command to whichever node takes it.
func command(t testing.TB, url string, words ...string) error {
	t.Helper()
	var refused error
	for addr := range strings.SplitSeq(strings.TrimPrefix(url, "redis://"), ",") {
		conn, err := net.DialTimeout("tcp", addr, 20*time.Second)
		must(t, conn, err)
		_, refused = ask(conn, bufio.NewReader(conn), [][]string{words})
		conn.Close()
		if refused == nil {
			return nil
		}
	}
	return refused
}

// hashField is a field of a hash, from whichever node has it.
func hashField(t testing.TB, url, key, field string) (text string) {
	t.Helper()
	for addr := range strings.SplitSeq(strings.TrimPrefix(url, "redis://"), ",") {
		conn, err := net.DialTimeout("tcp", addr, 20*time.Second)
		must(t, conn, err)
		if replies, err := ask(conn, bufio.NewReader(conn), [][]string{{"HGET", key, field}}); err == nil {
			text, _ = replies[0].(string)
		}
		conn.Close()
	}
	return text
}

func readKeyspace(conn net.Conn, into keyspace) error {
	r := bufio.NewReader(conn)
	found, err := ask(conn, r, [][]string{{"KEYS", "*"}})
	if err != nil {
		return err
	}
	keys := words(found[0])
	commands := make([][]string, len(keys))
	for i, key := range keys {
		commands[i] = []string{"TYPE", key}
	}
	types, err := ask(conn, r, commands)
	if err != nil {
		return err
	}
	for i, key := range keys {
		switch types[i] {
		case "hash":
			commands[i] = []string{"HGETALL", key}
		case "list":
			commands[i] = []string{"LRANGE", key, "0", "-1"}
		case "set":
			commands[i] = []string{"SMEMBERS", key}
		case "zset":
			commands[i] = []string{"ZRANGE", key, "0", "-1", "WITHSCORES"}
		case "stream":
			commands[i] = []string{"XRANGE", key, "-", "+"}
		default:
			commands[i] = []string{"GET", key}
		}
	}
	values, err := ask(conn, r, commands)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if types[i] == "none" { // expired meanwhile
			continue
		}
		into[key] = fmt.Sprintf("%s %s", types[i], strings.Join(ordered(types[i], words(values[i])), "\x00"))
	}
	return nil
}

// ordered gives hashes and sets one order.
func ordered(kind any, list []string) []string {
	switch kind {
	case "hash":
		var pairs []string
		for i := 0; i+1 < len(list); i += 2 {
			pairs = append(pairs, list[i]+"="+list[i+1])
		}
		list = pairs
		fallthrough
	case "set":
		sort.Strings(list)
	}
	return list
}

// words flattens a reply.
func words(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			list = append(list, words(item)...)
		}
	}
	return list
}

// ask sends commands at once and reads their replies.
func ask(w io.Writer, r *bufio.Reader, commands [][]string) (replies []any, err error) {
	var text strings.Builder
	for _, command := range commands {
		fmt.Fprintf(&text, "*%d\r\n", len(command))
		for _, word := range command {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return nil, err
	}
	for range commands {
		v, err := readReply(r)
		if err != nil {
			return nil, err
		}
		replies = append(replies, v)
	}
	return replies, nil
}

// readReply reads one value of RESP2.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '-':
		return nil, fmt.Errorf("redis: %s", text)
	case '$', '*':
	default:
		return text, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, err
	}
	if kind == '$' {
		value := make([]byte, n+2)
		_, err := io.ReadFull(r, value)
		return string(value[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = readReply(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// stream is the entries of a stream, whose key ends with suffix: the value of
// each one's last field.
func (k keyspace) stream(suffix string) (entries []string) {
	for key, value := range k {
		rest, ok := strings.CutPrefix(value, "stream ")
		if !ok || !strings.HasSuffix(key, suffix) || rest == "" {
			continue
		}
		for part := range strings.SplitSeq(rest, "\x00") {
			if strings.HasPrefix(part, "{") {
				entries = append(entries, part)
			}
		}
	}
	return entries
}

// changes lists what is not the same in other.
func (k keyspace) changes(other keyspace) (list []string) {
	all := maps.Clone(k)
	maps.Copy(all, other)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if k[key] != other[key] {
			list = append(list, fmt.Sprintf("%s\n\twas %.400q\n\tis  %.400q", key, k[key], other[key]))
		}
	}
	return list
}

// refusals is how many refusals of strangers have been counted; of one reason,
// or of all.
func (k keyspace) refusals(reason string) (n int) {
	for key, value := range k {
		rest, ok := strings.CutPrefix(value, "hash ")
		if !ok || !strings.HasPrefix(key, "tollgate:denied:") {
			continue
		}
		for part := range strings.SplitSeq(rest, "\x00") {
			name, counted, _ := strings.Cut(part, "=")
			if times, _ := strconv.Atoi(counted); reason == "" || name == reason {
				n += times
			}
		}
	}
	return n
}

// without leaves out what a refusal may write (interface §5): the audit record
// with its counter and the mark of an entry, which expires, and the counts of
// refused strangers.
func (k keyspace) without() keyspace {
	rest := make(keyspace)
	for key, value := range k {
		switch {
		case strings.HasSuffix(key, ":audit"), strings.Contains(key, ":op:"), strings.HasPrefix(key, "tollgate:denied:"):
			continue
		case strings.HasSuffix(key, ":seq"):
			value = strings.Join(slices.DeleteFunc(strings.Split(value, "\x00"), func(f string) bool {
				return strings.Contains(f, "audit=")
			}), "\x00")
		}
		rest[key] = value
	}
	return rest
}
