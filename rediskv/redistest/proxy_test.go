package redistest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/redistest"
)

func TestProxyCountsCommands(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	client := connect(t, wire.URL)
	// A connection starts with commands of its own, and go-redis keeps others
	// for pipelines.
	warm := client.Pipeline()
	warm.Ping(t.Context())
	if _, err := warm.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	wire.Reset()

	value := strings.Repeat("x\r\n", 100_000)
	if err := client.Set(t.Context(), "key", value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "key").Result(); err != nil || got != value {
		t.Fatalf("GET through the proxy: %d bytes, %v", len(got), err)
	}
	pipe := client.Pipeline()
	for range 3 {
		pipe.Incr(t.Context(), "n")
	}
	pipe.HGetAll(t.Context(), "none")
	pipe.Get(t.Context(), "none")
	if _, err := pipe.Exec(t.Context()); err != redis.Nil {
		t.Fatal(err)
	}

	var names []string
	for _, c := range wire.Sent() {
		names = append(names, c.Name+" "+c.Arg)
	}
	want := []string{"SET key", "GET key", "INCR n", "INCR n", "INCR n", "HGETALL none", "GET none"}
	if !slices.Equal(names, want) {
		t.Fatalf("sent %q, want %q", names, want)
	}
	if wire.Count("incr") != 3 || wire.Counts()["GET"] != 2 {
		t.Fatalf("counts %v", wire.Counts())
	}
}

func TestProxyDelays(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	client := connect(t, wire.URL)
	const away = 30 * time.Millisecond
	wire.Delay(away)
	begun := time.Now()
	for range 3 {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took < 3*away {
		t.Errorf("three round trips of %s took %s", away, took)
	}
}

func TestProxySwallowsOneReply(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	client := connect(t, wire.URL)
	lost := wire.SwallowReply("incr")
	if err := client.Set(t.Context(), "n", 0, 0).Err(); err != nil {
		t.Fatalf("another command: %v", err)
	}
	if err := client.Incr(t.Context(), "n").Err(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("INCR whose reply is lost: %v", err)
	}
	select {
	case <-lost:
	case <-time.After(redistest.Patience):
		t.Fatal("the reply was not swallowed")
	}
	// The server carried it out; the next one's reply arrives.
	if n, err := client.Incr(t.Context(), "n").Result(); err != nil || n != 2 {
		t.Fatalf("INCR after the lost one = %d, %v, want 2", n, err)
	}
	if wire.Count("INCR") != 2 {
		t.Fatalf("%d times INCR on the wire, want 2", wire.Count("INCR"))
	}
}

func TestProxyRefusesAndAccepts(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	client := connect(t, wire.URL)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	wire.Refuse()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("PING answered on a cut connection")
	}
	if _, err := net.Dial("tcp", wire.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial while refusing: %v", err)
	}
	wire.Accept()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("PING after Accept: %v", err)
	}
}

func TestProxyPauses(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	client := connect(t, wire.URL)
	if err := client.Set(t.Context(), "n", 0, 0).Err(); err != nil {
		t.Fatal(err)
	}
	wire.Pause()
	wire.Pause()
	conn, err := net.Dial("tcp", wire.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("INCR while paused: %v", err)
	}
	wire.Resume()
	// What was sent during the pause arrives after it.
	within(t, "the delayed INCR took effect", func() bool {
		n, err := client.Get(t.Context(), "n").Int()
		return err == nil && n == 1
	})
}

func TestProxyOfADeadServer(t *testing.T) {
	server := redistest.Single(t)
	wire := redistest.Proxy(t, server.URL)
	client := connect(t, wire.URL)
	server.Kill()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("PING answered by a dead server")
	}
	server.Restart()
	within(t, "the server answers through the proxy", func() bool { return client.Ping(t.Context()).Err() == nil })
}

func TestProxyPassesMessages(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	client := connect(t, wire.URL)
	subscription := client.Subscribe(t.Context(), "changes")
	defer subscription.Close()
	if _, err := subscription.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Publish(t.Context(), "changes", "hello").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	message, err := subscription.ReceiveMessage(ctx)
	if err != nil || message.Payload != "hello" {
		t.Fatalf("message %v, %v", message, err)
	}
}
