package fair

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// Serial stands in a request where each one has a text of its own.
const Serial = "000000000000"

// Load is requests that a tenant repeats, each connection the next one as soon
// as it has its answer. The requests are ready to be sent, so that little of the
// machine goes to those who ask.
type Load struct {
	Address string
	Groups  []Group
}

// Group is connections that send the same.
type Group struct {
	Connections int
	Requests    []string // in turn
	Rate        float64  // of all its connections in a second; 0: as much as they can
}

// Done is how often a group was answered, by status.
type Done struct {
	Statuses map[string]int
	Seconds  float64
}

// Start has a process of its own send a load; TestTenant of the calling
// package is that process. stop ends it.
func (l *Load) Start(t *testing.T, control bool) (stop func() string) {
	t.Helper()
	send := *l
	if control {
		send.Address = ""
	}
	// Among those who ask it has a processor when nobody else wants it (SCHED_IDLE).
	cmd, in, out := tenant(t, "greedy", "chrt", "--idle", "0")
	check(t, json.NewEncoder(in).Encode(send))
	lines := bufio.NewReader(out)
	_, err := lines.ReadString('\n')
	check(t, err)
	time.Sleep(100 * time.Millisecond) // until queues are as long as they get
	return func() string {
		check(t, in.Close())
		line, err := lines.ReadBytes('\n')
		check(t, err)
		var all []Done
		check(t, json.Unmarshal(line, &all))
		_, _ = io.Copy(io.Discard, lines)
		check(t, cmd.Wait())
		if !control {
			for i, d := range all {
				l.Groups[i].Rate = max(1, float64(d.sum())/d.Seconds)
			}
		}
		return told(all)
	}
}

// tenant starts TestTenant as a process of its own, where the service is not.
func tenant(t *testing.T, which string, command ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
	t.Helper()
	args := redistest.Elsewhere(append(command, os.Args[0], "-test.run=^TestTenant$", "-test.count=1")...)
	cmd = exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), Variable+"="+which)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err = cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	return cmd, in, out
}

func (d Done) sum() (n int) {
	for _, count := range d.Statuses {
		n += count
	}
	return n
}

func told(all []Done) string {
	var text []string
	for _, d := range all {
		for _, status := range slices.Sorted(maps.Keys(d.Statuses)) {
			text = append(text, fmt.Sprintf("%s %.0f/s", status, float64(d.Statuses[status])/d.Seconds))
		}
	}
	return strings.Join(text, ", ")
}

// Tenant is the process of a tenant: the greedy one sends what it reads, until
// its input ends.
func Tenant(t *testing.T) {
	switch os.Getenv(Variable) {
	case "modest":
		modest(t)
		return
	case "greedy":
	default:
		t.Skip("`make fair` runs it")
	}
	in := json.NewDecoder(os.Stdin)
	var l Load
	check(t, in.Decode(&l))
	paced := l.Address == ""
	if paced {
		nothing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "{}")
		}))
		l.Address = nothing.Listener.Addr().String()
	}
	start := time.Now()
	all := make([]*group, len(l.Groups))
	var first sync.WaitGroup
	for i, g := range l.Groups {
		all[i] = &group{Group: g, address: l.Address, done: Done{Statuses: make(map[string]int)}}
		if !paced {
			all[i].Rate = 0
		}
		first.Add(g.Connections)
		for n := range g.Connections {
			go all[i].run(n, first.Done)
		}
	}
	first.Wait()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, io.MultiReader(in.Buffered(), os.Stdin))
	done := make([]Done, len(all))
	for i, g := range all {
		g.mu.Lock() // and nobody is heard of again
		g.done.Seconds = time.Since(start).Seconds()
		done[i] = g.done
	}
	check(t, json.NewEncoder(os.Stdout).Encode(done))
}

// group is one at work.
type group struct {
	Group
	address string

	mu     sync.Mutex
	serial int
	done   Done
}

func (g *group) run(connection int, begun func()) {
	begun = sync.OnceFunc(begun)
	turn := time.Now()
	var conn net.Conn
	var answers *bufio.Reader
	for n := connection; ; n++ {
		if g.Rate > 0 {
			turn = turn.Add(time.Duration(float64(time.Second) * float64(g.Connections) / g.Rate))
			begun()
			time.Sleep(time.Until(turn))
		}
		status, err := "error", error(nil)
		if conn == nil {
			conn, err = net.Dial("tcp", g.address)
			answers = bufio.NewReader(conn)
		}
		if err == nil {
			_, err = conn.Write(g.next(n))
		}
		begun()
		if err == nil {
			status, err = answer(answers)
		}
		if err != nil && conn != nil {
			conn.Close()
			conn = nil
		}
		g.mu.Lock()
		g.done.Statuses[status]++
		g.mu.Unlock()
	}
}

// next is a request with a text of its own.
func (g *group) next(n int) []byte {
	g.mu.Lock()
	g.serial++
	serial := g.serial
	g.mu.Unlock()
	own := fmt.Sprintf("%0*d", len(Serial), time.Now().UnixNano()%1e7*1e5+int64(serial)%1e5)
	return bytes.ReplaceAll([]byte(g.Requests[n%len(g.Requests)]), []byte(Serial), []byte(own))
}

func answer(answers *bufio.Reader) (status string, err error) {
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		return "error", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return fmt.Sprint(resp.StatusCode), err
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
