package redistest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// patience bounds every wait for a server; a start takes about 50 ms, a
	// cluster about 3 s, on a machine that does nothing else.
	patience = 60 * time.Second
	// attempts is how often a start is tried again when another process took
	// the port between our look and the server's bind.
	attempts = 20
)

// node is one redis-server process. Its parent is a keeper, a small shell
// script, not the test process: whatever ends this process, SIGKILL included,
// closes the keeper's standard input, upon which it kills the server and
// removes its files.
type node struct {
	dir, addr string
	fsync     string   // appendfsync
	args      []string // besides those that every node has

	gate, busGate string // where others find it, and the port of its bus, if not itself; see Gates

	keeper *exec.Cmd // nil when the server does not run
	stdin  io.WriteCloser
	pid    string
}

// The keeper prints the server's pid, then waits: a line asks it to kill the
// server and leave its files, end of file to remove them too. It ignores the
// terminal's signals so that Ctrl-C does not end it before the server.
const keeper = `trap '' INT TERM HUP
dir=$1; shift
"$@" >>"$dir/redis.log" 2>&1 </dev/null &
pid=$!
echo $pid
if read -r line; then keep=yes; else keep=; fi
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
[ -n "$keep" ] || rm -rf -- "$dir"`

// launchNodes starts count servers with empty directories. Those that did
// start are returned beside an error too.
func launchNodes(count int, fsync string, args ...string) ([]*node, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("%s=%s needs redis-server 7.0 or newer (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis); leave the variable unset to test on miniredis: %w",
			Variable, os.Getenv(Variable), err)
	}
	var nodes []*node
	for range count {
		n, err := launchNode(fsync, args)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func launchNode(fsync string, args []string) (*node, error) {
	dir, err := os.MkdirTemp("", "tollgate-redis-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for redis-server: %w", err)
	}
	n := &node{dir: dir, fsync: fsync}
	for range attempts {
		if n.addr, err = FreeAddr(); err != nil {
			break
		}
		n.args = args
		if len(args) > 0 {
			// The default bus port, the port + 10,000, may be another's.
			var bus string
			if bus, err = FreeAddr(); err != nil {
				break
			}
			n.args = append([]string{"--cluster-port", port(bus)}, args...)
		}
		if err = n.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		n.remove()
		return nil, err
	}
	return n, nil
}

var errPortTaken = errors.New("the port is taken")

// start runs the server on its address and directory and waits until it has
// loaded its data and answers.
func (n *node) start() error {
	args := append([]string{"-c", keeper, "keeper", n.dir}, Elsewhere(
		"redis-server", "--port", port(n.addr), "--bind", "127.0.0.1", "--dir", n.dir,
		"--appendonly", "yes", "--appendfsync", n.fsync, "--aof-load-truncated", "no", "--save", "",
		"--maxmemory-policy", "noeviction", "--daemonize", "no", "--repl-diskless-sync-delay", "0",
	)...)
	args = append(args, n.args...)
	if err := n.repair(); err != nil {
		return err
	}
	// Only the log of this start may say that the port is taken.
	if err := os.RemoveAll(n.log()); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	cmd := exec.Command("/bin/sh", args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	n.keeper, n.stdin = cmd, stdin
	pid, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return errors.Join(fmt.Errorf("start redis-server: read its pid: %w", err), n.kill())
	}
	n.pid = strings.TrimSpace(pid)
	if err := n.await(); err != nil {
		return errors.Join(err, n.kill())
	}
	return nil
}

// repair takes an unfinished transaction off the end of the append-only file: a
// kill can end a write in its middle. With aof-load-truncated, Redis leaves its
// beginning in the file, and the next start applies half of it.
func (n *node) repair() error {
	manifest := filepath.Join(n.dir, "appendonlydir", "appendonly.aof.manifest")
	if _, err := os.Stat(manifest); err != nil {
		return nil // its first start
	}
	check := exec.Command("redis-check-aof", "--fix", manifest)
	check.Stdin = strings.NewReader("y\n")
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("repair the append-only file: %w\n%s", err, out)
	}
	return nil
}

func (n *node) cut(bytes int64) error {
	files, err := filepath.Glob(filepath.Join(n.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%d files: %w", len(files), err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		return err
	}
	return os.Truncate(files[0], info.Size()-bytes)
}

// await returns when the server answers, and it is this one that does: another
// process' server may have taken the port.
func (n *node) await() error {
	o := nodeOptions(n.addr)
	o.ReadTimeout = time.Second // it is asked again
	client := redis.NewClient(o)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		log, _ := os.ReadFile(n.log())
		if strings.Contains(string(log), "Failed listening") {
			return fmt.Errorf("start redis-server on %s: %w", n.addr, errPortTaken)
		}
		if strings.Contains(string(log), "FATAL CONFIG FILE ERROR") {
			return fmt.Errorf("start redis-server (7.0 or newer is needed): its log:\n%s", log)
		}
		if listens(n.addr) {
			// PING answers LOADING until the append-only file has been read.
			if client.Ping(ctx).Err() == nil {
				info, err := client.Info(ctx, "server").Result()
				if err == nil && strings.Contains(info, "process_id:"+n.pid+"\r\n") {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start redis-server on %s: no answer within %s; its log:\n%s", n.addr, patience, log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// listens spares go-redis, which logs each of them, the dials in vain.
func listens(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// kill ends the server with SIGKILL and keeps its files. Killing what does not
// run does nothing.
func (n *node) kill() error {
	if n.keeper == nil {
		return nil
	}
	_, err := io.WriteString(n.stdin, "kill\n")
	return errors.Join(err, n.wait())
}

// signal sends the server, which runs, a signal.
func (n *node) signal(sig syscall.Signal) error {
	pid, err := strconv.Atoi(n.pid)
	if err != nil || n.keeper == nil {
		return fmt.Errorf("signal redis-server: process %q does not run: %w", n.pid, err)
	}
	return syscall.Kill(pid, sig)
}

// remove ends the server, if it runs, and deletes its files.
func (n *node) remove() {
	if n.keeper != nil {
		_ = n.stdin.Close()
		_ = n.wait()
	}
	_ = os.RemoveAll(n.dir)
}

func (n *node) wait() error {
	err := n.keeper.Wait()
	n.keeper, n.stdin = nil, nil
	// The keeper ends with the status of its last test, which says nothing.
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func (n *node) log() string { return filepath.Join(n.dir, "redis.log") }

// nodeOptions are those of a client that asks once and waits: on a machine with
// much to do an answer takes seconds.
func nodeOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
}

// public is where clients and other nodes connect to, bus the port of its bus.
func (n *node) public() string { return cmp.Or(n.gate, n.addr) }

// A node of a cluster has --cluster-port first in its args.
func (n *node) bus() string { return cmp.Or(n.busGate, n.args[1]) }

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}
