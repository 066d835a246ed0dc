package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of our own, whose clock is off as much as ours. It writes
// nothing to its disk before all is there.
type server struct {
	dir    string
	port   int
	cmd    *exec.Cmd
	client *redis.Client
	off    *os.File // what scripts/faults/shim/clock.c reads
}

const dump = "dump.rdb"

// startRedis starts one in a directory that has none of an earlier run. shim is the
// library that has it see another time; empty: it sees the real one.
func startRedis(ctx context.Context, dir string, port int, shim string) (*server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, dump)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is there already. Remove it, or name another directory with -dir", filepath.Join(dir, dump))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &server{dir: dir, port: port}
	if s.listens() {
		return nil, fmt.Errorf("something listens on port %d already; name another with -port", port)
	}
	s.cmd = exec.Command("redis-server", s.arguments()...)
	if err := s.preload(shim); err != nil {
		return nil, err
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("redis-server cannot be started (Debian, Ubuntu: apt-get install redis-server): %w", err)
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.address(), ReadTimeout: 10 * time.Minute})
	for range 100 {
		if s.listens() {
			return s, s.client.Ping(ctx).Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.kill()
	return nil, fmt.Errorf("redis-server does not answer on port %d; see %s", port, filepath.Join(dir, "redis.log"))
}

// preload has the server see another time.
func (s *server) preload(shim string) (err error) {
	if shim == "" {
		return nil
	}
	if shim, err = filepath.Abs(shim); err != nil {
		return err
	}
	if s.off, err = os.Create(filepath.Join(s.dir, "clock")); err != nil {
		return err
	}
	s.cmd.Env = append(os.Environ(), "LD_PRELOAD="+shim, "TOLLGATE_SHIM_CLOCK="+s.off.Name())
	return s.move(0)
}

// move has its clock be off by so much.
func (s *server) move(off time.Duration) error {
	_, err := s.off.WriteAt(fmt.Appendf(nil, "%+015d\n", int64(off/time.Second)), 0)
	return err
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) listens() bool {
	c, err := net.Dial("tcp", s.address())
	if err == nil {
		c.Close()
	}
	return err == nil
}

func (s *server) arguments() []string {
	return []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--dbfilename", dump, "--logfile", "redis.log",
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
		"--jemalloc-bg-thread", "no", // on a clock that is behind it would never pause
	}
}

func (s *server) url() string { return "redis://" + s.address() }

// save writes the file, and says how to go on with it.
func (s *server) save(ctx context.Context) error {
	begun := time.Now()
	if err := s.client.Save(ctx).Err(); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	file := filepath.Join(s.dir, dump)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf(`%s has %s, written in %s. To go on with it:

  redis-server --port %d --bind 127.0.0.1 --dir %s --save "" --maxmemory-policy noeviction
  bin/tollgate dev --redis %s
`, file, size(info.Size()), time.Since(begun).Round(time.Second), s.port, s.dir, s.url())
	return nil
}

// kill ends it. What it has not saved is gone.
func (s *server) kill() {
	if s.client != nil {
		_ = s.client.Close()
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	if s.off != nil {
		_ = s.off.Close()
		_ = os.Remove(s.off.Name())
	}
}
