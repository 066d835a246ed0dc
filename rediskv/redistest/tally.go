package redistest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Tally counts what one node is told to do, and what scripts do there.
type Tally struct {
	tb     testing.TB
	url    string
	client *redis.Client
	cancel context.CancelFunc
	began  float64
	done   chan struct{}

	partitions, elsewhere map[string]int
}

// partitionTag is the hash tag of a partition's keys.
var partitionTag = regexp.MustCompile(`"(\{p\d+\}):`)

// endOfTally is the last that a tally counts up to.
const endOfTally = "the tally ends"

// Listen begins a tally of the node at an address.
func Listen(tb testing.TB, address string) *Tally {
	tb.Helper()
	t := &Tally{
		tb: tb, url: "redis://" + address, client: redis.NewClient(&redis.Options{Addr: address, Protocol: 2}), done: make(chan struct{}),
		partitions: map[string]int{}, elsewhere: map[string]int{},
	}
	tb.Cleanup(func() { _ = t.client.Close() })
	ctx, cancel := context.WithCancel(tb.Context())
	t.cancel = cancel
	lines := make(chan string, 1<<16)
	t.client.Monitor(ctx, lines).Start()
	t.began = CPU(tb, t.url)
	go t.count(lines)
	return t
}

func (t *Tally) count(lines <-chan string) {
	defer close(t.done)
	for line := range lines {
		tag := partitionTag.FindStringSubmatch(line)
		_, command, _ := strings.Cut(line, `] "`)
		name, _, _ := strings.Cut(command, `"`)
		switch {
		case strings.Contains(line, endOfTally):
			return
		case tag != nil:
			t.partitions[tag[1]]++
		case strings.Contains(line, ` lua] "TIME"`): // a script of some partition asks for it
		case name != "":
			t.elsewhere[strings.ToLower(name)]++
		}
	}
}

// End ends a tally: the processor time of the node in milliseconds, which is that of
// telling of its commands, too, the commands by the hash tag of the partition that they are
// about, and by their names those that are about none.
func (t *Tally) End() (used float64, partitions, elsewhere map[string]int) {
	t.tb.Helper()
	used = (CPU(t.tb, t.url) - t.began) / 1000
	last := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(t.url, "redis://")})
	defer last.Close()
	if err := last.Echo(t.tb.Context(), endOfTally).Err(); err != nil {
		t.tb.Fatal(err)
	}
	select {
	case <-t.done:
	case <-time.After(time.Minute):
		t.tb.Fatal(fmt.Errorf("%s does not tell what it does", t.url))
	}
	t.cancel()
	return used, t.partitions, t.elsewhere
}
