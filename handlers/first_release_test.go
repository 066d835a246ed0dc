package handlers_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"
)

// firstRelease is how the first release (commit 6025134) created a payment: its script
// and what it was run with, as they went over the wire. It is a yardstick that stays,
// whatever later scripts do beside.
type firstRelease struct {
	Versions []string `json:"versions"` // keys whose revision it compares
	Keys     []string `json:"keys"`
	Args     []string `json:"args"`
}

// ownPlace stands in keys and arguments where each payment has digits of its own.
const ownPlace = "########"

// scriptOfFirstRelease loads the script, and what it compares, into a Redis.
func scriptOfFirstRelease(b *testing.B, url string) paymentScript {
	b.Helper()
	source, err := os.ReadFile("testdata/first_release/create_payment.lua")
	check(b, err)
	text, err := os.ReadFile("testdata/first_release/create_payment.json")
	check(b, err)
	var first firstRelease
	check(b, json.Unmarshal(text, &first))
	o, err := redis.ParseURL(url)
	check(b, err)
	c := redis.NewClient(o)
	defer c.Close()
	digest, err := c.ScriptLoad(b.Context(), string(source)).Result()
	check(b, err)
	for _, key := range first.Versions {
		check(b, c.HSet(b.Context(), key, "v", "1").Err())
	}
	command := append([]string{"EVALSHA", digest, fmt.Sprint(len(first.Keys))}, append(first.Keys, first.Args...)...)
	s := paymentScript{addr: strings.TrimPrefix(url, "redis://"), runs: new(atomic.Int64)}
	s.text = fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, arg := range command {
		s.text = fmt.Appendf(s.text, "$%d\r\n%s\r\n", len(arg), arg)
	}
	for at := strings.Index(string(s.text), ownPlace); at >= 0; {
		s.places = append(s.places, at)
		next := strings.Index(string(s.text[at+placeSize:]), ownPlace)
		if next < 0 {
			break
		}
		at += placeSize + next
	}
	return s
}

// together runs the script on as many connections as requests come on, and nothing else.
func (s paymentScript) together(b *testing.B) (send func(n int)) {
	wires := make([]*bareWire, connections)
	for i := range wires {
		wires[i] = s.dial(b)
	}
	return func(n int) {
		var left atomic.Int64
		left.Store(int64(n))
		var running sync.WaitGroup
		for _, wire := range wires {
			running.Go(func() {
				for left.Add(-1) >= 0 {
					if err := wire.run(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		running.Wait()
	}
}
