package simulate

import (
	"testing"
	"time"
)

// What a machine has after each of its changes can be made again from a beginning of
// them: a script and a transaction are there whole or not at all.
func TestPrefix(t *testing.T) {
	m := newMachine(begins)
	defer m.close()
	s := newSession()
	var dumps []string
	for i, words := range [][]string{
		{"SET", "a", "1", "PX", "60000"},
		{"EVAL", "redis.call('HSET', KEYS[1], 'n', '1') redis.call('XADD', KEYS[2], '*', 'b', ARGV[1]) return 1", "2", "h", "s", "text"},
		{"MULTI"},
		{"HINCRBY", "h", "n", "5"},
		{"ZADD", "z", "3", "one", "4.5", "two"},
		{"EXEC"},
		{"GET", "a"},
		{"XADD", "s", "*", "b", "more"},
		{"DEL", "h"},
	} {
		m.until(begins.Add(time.Duration(i) * 10 * time.Second))
		m.run(s, words)
		for len(dumps) < len(m.effects) {
			dumps = append(dumps, m.mini.Dump())
		}
	}
	if len(dumps) != 5 {
		t.Fatalf("%d changes", len(dumps))
	}
	for i, want := range dumps {
		again := m.prefix(i + 1)
		if have := again.mini.Dump(); have != want {
			t.Errorf("after %d changes it has\n%s\nand had\n%s", i+1, have, want)
		}
		again.close()
	}
}
