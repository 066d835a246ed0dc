//go:build unix

package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// Where the file goes stays what it was: a pipe is written to, a link is
// followed, and a file that is replaced keeps its mode.
func TestFetchExportKeepsTheTarget(t *testing.T) {
	file := []byte("id\r\nrow\r\n")
	sum := sha256.Sum256(file)
	server := httptest.NewServer(&flaky{file: file, sum: hex.EncodeToString(sum[:])})
	defer server.Close()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fetch := func(name string) {
		t.Helper()
		a, _, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "t"})
		if code := a.Run(context.Background(), clitest.Root(a, Commands(a)...), []string{"export", "--id", "exp_1", "-o", at(name)}); code != cli.ExitOK {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
	is := func(name string, want os.FileMode) {
		t.Helper()
		info, err := os.Lstat(at(name))
		check(err)
		if info.Mode() != want {
			t.Errorf("%s is %s, want %s", name, info.Mode(), want)
		}
		if want.IsRegular() {
			if text, err := os.ReadFile(at(name)); err != nil || string(text) != string(file) {
				t.Errorf("%s has %q, %v", name, text, err)
			}
		}
	}

	check(os.WriteFile(at("shared"), []byte("before"), 0o600))
	check(os.Chmod(at("shared"), 0o664))
	fetch("shared")
	is("shared", 0o664)

	check(os.Mkdir(at("elsewhere"), 0o700))
	check(os.WriteFile(at("elsewhere/old"), nil, 0o640))
	check(os.Symlink("elsewhere/old", at("link")))
	check(os.Symlink("link", at("again")))
	check(os.Symlink("elsewhere/new", at("dangling")))
	const link = os.ModeSymlink | 0o777
	fetch("again")
	is("again", link)
	is("link", link)
	is("elsewhere/old", 0o640)
	fetch("dangling")
	is("dangling", link)
	is("elsewhere/new", 0o600)

	// A pipe stands for devices, too: a fault here must not replace those of the machine.
	check(syscall.Mkfifo(at("pipe"), 0o600))
	check(os.Symlink("pipe", at("piped")))
	read := make(chan string, 1)
	pipe, err := os.OpenFile(at("pipe"), os.O_RDWR, 0) // also a writer: opening waits for nobody
	check(err)
	go func() {
		text := make([]byte, len(file))
		_, _ = io.ReadFull(pipe, text)
		read <- string(text)
	}()
	fetch("piped")
	is("piped", link)
	is("pipe", os.ModeNamedPipe|0o600)
	if !t.Failed() {
		if text := <-read; text != string(file) {
			t.Errorf("%q comes through the pipe", text)
		}
	}
	pipe.Close()

	if left, err := os.ReadDir(dir); err != nil || len(left) != 7 {
		t.Errorf("%v is left, %v", left, err)
	}
}
