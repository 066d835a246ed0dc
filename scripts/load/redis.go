package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of our own. It writes nothing to its disk before all is there.
type server struct {
	dir    string
	port   int
	cmd    *exec.Cmd
	client *redis.Client
}

const dump = "dump.rdb"

// startRedis starts one in a directory that has none of an earlier run.
func startRedis(ctx context.Context, dir string, port int) (*server, error) {
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
	s := &server{dir: dir, port: port, client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(port), ReadTimeout: 10 * time.Minute})}
	if s.client.Ping(ctx).Err() == nil {
		return nil, fmt.Errorf("another Redis listens on port %d; name another with -port", port)
	}
	s.cmd = exec.Command("redis-server", s.arguments()...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("redis-server cannot be started (Debian, Ubuntu: apt-get install redis-server): %w", err)
	}
	for range 100 {
		if s.client.Ping(ctx).Err() == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.kill()
	return nil, fmt.Errorf("redis-server does not answer on port %d", port)
}

func (s *server) arguments() []string {
	return []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--dbfilename", dump, "--logfile", "redis.log",
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
	}
}

func (s *server) url() string { return "redis://127.0.0.1:" + strconv.Itoa(s.port) }

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
	_ = s.client.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
