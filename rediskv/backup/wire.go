package backup

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// silence is how long a master may send nothing. While it prepares a snapshot it sends
// a line now and then.
const silence = time.Minute

// ErrNoSync: the server gives nobody a copy of itself, as services that run Redis for
// others do.
type ErrNoSync struct{ Addr, Reply string }

func (e *ErrNoSync) Error() string {
	return fmt.Sprintf("redis at %s gives no copy of itself (SYNC: %s). Allow the user SYNC and REPLCONF, or use the backups of whoever runs this Redis", e.Addr, e.Reply)
}

// link is a connection to a master on which this process is its replica.
type link struct {
	conn  net.Conn
	in    *bufio.Reader
	timer *time.Timer
}

// replicate dials a master and asks it for a snapshot of this moment.
func replicate(ctx context.Context, o *redis.Options) (*link, error) {
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Addr, err)
	}
	l := &link{conn: conn, timer: time.AfterFunc(silence, func() { _ = conn.Close() })}
	l.in = bufio.NewReaderSize(l, 1<<16)
	if o.Password != "" {
		auth := []string{"AUTH", o.Password}
		if o.Username != "" {
			auth = []string{"AUTH", o.Username, o.Password}
		}
		if err := l.do(auth...); err != nil {
			l.close()
			return nil, fmt.Errorf("redis at %s: %w", o.Addr, err)
		}
	}
	// With the first, the master needs no room on its disk; with the other, it does not
	// keep what changes meanwhile for this replica. Either may be unknown to it.
	for _, say := range [][]string{{"REPLCONF", "capa", "eof"}, {"REPLCONF", "rdb-only", "1"}} {
		if err := l.do(say...); err != nil && !isReply(err) {
			l.close()
			return nil, fmt.Errorf("redis at %s: %w", o.Addr, err)
		}
	}
	if err := l.send("SYNC"); err != nil {
		l.close()
		return nil, fmt.Errorf("redis at %s: %w", o.Addr, err)
	}
	return l, nil
}

func (l *link) close() {
	l.timer.Stop()
	_ = l.conn.Close()
}

// Read is that of the connection, which ends when nothing comes.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	l.timer.Reset(silence)
	return n, err
}

func (l *link) send(words ...string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	_, err := l.conn.Write(b.Bytes())
	return err
}

// reply is an error that the server has answered.
type reply string

func (r reply) Error() string { return string(r) }

func isReply(err error) bool { _, is := err.(reply); return is }

func (l *link) line() (string, error) {
	text, err := l.in.ReadString('\n')
	text = strings.TrimRight(text, "\r\n")
	if err == nil && strings.HasPrefix(text, "-") {
		return "", reply(text[1:])
	}
	return text, err
}

func (l *link) do(words ...string) error {
	if err := l.send(words...); err != nil {
		return err
	}
	_, err := l.line()
	return err
}

// markSize is the length of the mark that ends a snapshot whose size the master did not
// know when it began.
const markSize = 40

// copyTo writes the snapshot that was asked for.
func (l *link) copyTo(w io.Writer, addr string) error {
	head := ""
	for head == "" { // the master is at it
		var err error
		if head, err = l.line(); isReply(err) {
			return &ErrNoSync{addr, err.Error()}
		} else if err != nil {
			return fmt.Errorf("redis at %s: %w", addr, err)
		}
	}
	var err error
	if mark, ok := strings.CutPrefix(head, "$EOF:"); ok && len(mark) == markSize {
		err = l.until([]byte(mark), w)
	} else {
		size, wrong := strconv.ParseInt(strings.TrimPrefix(head, "$"), 10, 64)
		if wrong != nil || size <= 0 {
			return fmt.Errorf("redis at %s answers SYNC with %.60q", addr, head)
		}
		_, err = io.CopyN(w, l.in, size)
	}
	if err != nil {
		return fmt.Errorf("redis at %s stopped in the middle of its copy: %w", addr, err)
	}
	return nil
}

// until copies what comes in front of a mark.
func (l *link) until(mark []byte, w io.Writer) error {
	b, have := make([]byte, 1<<16), 0
	for {
		n, err := l.in.Read(b[have:])
		have += n
		if err != nil && n == 0 {
			return unexpected(err)
		}
		if bytes.HasSuffix(b[:have], mark) {
			_, err = w.Write(b[:have-markSize])
			return err
		}
		if rest := have - markSize; rest > 0 {
			if _, err := w.Write(b[:rest]); err != nil {
				return err
			}
			have = copy(b, b[rest:have])
		}
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
