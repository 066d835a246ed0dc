package handlers_test

import (
	"bufio"
	"crypto/sha1"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
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
	s := paymentScript{addr: strings.TrimPrefix(url, "redis://"), runs: new(atomic.Int64)}
	conn, err := net.Dial("tcp", s.addr)
	check(b, err)
	defer conn.Close()
	sent, replies := resp("SCRIPT", "LOAD", string(source)), bufio.NewReader(conn)
	for _, key := range first.Versions {
		sent = append(sent, resp("HSET", key, "v", "1")...)
	}
	_, err = conn.Write(sent)
	check(b, err)
	for range 2 + len(first.Versions) { // the digest is a line of its own
		line, err := replies.ReadString('\n')
		if check(b, err); line[0] == '-' {
			b.Fatal(line)
		}
	}
	digest := fmt.Sprintf("%x", sha1.Sum(source))
	s.text = resp(append([]string{"EVALSHA", digest, fmt.Sprint(len(first.Keys))}, append(first.Keys, first.Args...)...)...)
	for _, found := range regexp.MustCompile(ownPlace).FindAllIndex(s.text, -1) {
		s.places = append(s.places, found[0])
	}
	return s
}

// resp is a command as it is sent to Redis.
func resp(args ...string) []byte {
	text := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return text
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
