package rediskv

import (
	"testing"
	"time"

	"tollgate/rediskv/peer"
)

// TestURLHasTheLastWord: what the URL says of connections holds, and what it leaves out is
// the Store's.
func TestURLHasTheLastWord(t *testing.T) {
	const most = 2 * time.Second
	for _, c := range []struct {
		query                      string
		dial, read, write, waiting time.Duration
		retries                    int
	}{
		{"", most / 2, most, most, most / 2, 0},
		{"?read_timeout=3s&max_retries=7", most / 2, 3 * time.Second, most, most / 2, 7},
		{"?dial_timeout=4s&write_timeout=5s&pool_timeout=6s", 4 * time.Second, most, 5 * time.Second, 6 * time.Second, 0},
	} {
		o, _, err := redisOptions(Options{URL: "redis://127.0.0.1:1/0" + c.query, connections: new(peer.Connections)}, 0, most)
		if err != nil {
			t.Fatal(err)
		}
		if o.DialTimeout != c.dial || o.ReadTimeout != c.read || o.WriteTimeout != c.write || o.PoolTimeout != c.waiting || o.MaxRetries != c.retries {
			t.Errorf("%q: %+v", c.query, o)
		}
	}
}
