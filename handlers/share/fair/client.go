package fair

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// Client is the modest tenant: a process of its own, which the service's busy
// scheduler does not keep from noticing an answer.
type Client struct {
	Address string

	mu      sync.Mutex
	out     *json.Encoder
	number  int
	waiting map[int]chan<- Answer
}

// Answer is what came of a request.
type Answer struct {
	Number       int
	Began, Ended time.Time
	Status       int
	Body         []byte
	Error        string // no answer came
}

// question is a request for the modest tenant's process.
type question struct {
	Number  int
	Address string
	Request []byte
}

// NewClient starts the process; it ends with the test.
func NewClient(t *testing.T, address string) *Client {
	t.Helper()
	cmd, in, out := tenant(t, "modest")
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	c := &Client{Address: address, out: json.NewEncoder(in), waiting: make(map[int]chan<- Answer)}
	go func() {
		answers := json.NewDecoder(out)
		for {
			var a Answer
			if answers.Decode(&a) != nil {
				return
			}
			c.mu.Lock()
			c.waiting[a.Number] <- a
			delete(c.waiting, a.Number)
			c.mu.Unlock()
		}
	}()
	return c
}

// Send has a request sent. Requests that are under way at the same time have
// connections of their own.
func (c *Client) Send(request string) <-chan Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	answer := make(chan Answer, 1)
	c.waiting[c.number] = answer
	if err := c.out.Encode(question{c.number, c.Address, []byte(request)}); err != nil {
		delete(c.waiting, c.number)
		answer <- Answer{Error: err.Error()}
	}
	return answer
}

// modest is that process.
func modest(t *testing.T) {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var mu sync.Mutex
	var idle []*line
	for {
		var q question
		if err := in.Decode(&q); err != nil {
			return
		}
		mu.Lock()
		l := &line{}
		if n := len(idle); n > 0 {
			l, idle = idle[n-1], idle[:n-1]
		}
		mu.Unlock()
		go func() {
			a := l.ask(q)
			mu.Lock()
			defer mu.Unlock()
			idle = append(idle, l)
			if err := out.Encode(a); err != nil {
				t.Error(err)
			}
		}()
	}
}

// line is a connection.
type line struct {
	conn    net.Conn
	answers *bufio.Reader
}

func (l *line) ask(q question) Answer {
	a := Answer{Number: q.Number}
	var err error
	if l.conn == nil {
		if l.conn, err = net.Dial("tcp", q.Address); err != nil {
			a.Error = err.Error()
			return a
		}
		l.answers = bufio.NewReader(l.conn)
	}
	a.Began = time.Now()
	var resp *http.Response
	if _, err = l.conn.Write(q.Request); err == nil {
		resp, err = http.ReadResponse(l.answers, nil)
	}
	if err == nil {
		a.Status = resp.StatusCode
		a.Body, err = io.ReadAll(resp.Body)
	}
	a.Ended = time.Now()
	if err != nil {
		a.Error = err.Error()
		l.conn.Close()
		l.conn = nil
	} else if resp.Close {
		l.conn.Close()
		l.conn = nil
	}
	return a
}
