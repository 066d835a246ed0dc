package examples_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// startSandbox starts `tollgate dev`, which ends with the test, and returns the
// environment that it writes.
func startSandbox(t *testing.T) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dev.env")
	program := clitest.Program{Name: "tollgate", Path: build(t, "../..", "./cmd/tollgate")}
	p := program.Start(t, nil, "dev", "--addr", "127.0.0.1:0", "--write-env", file)
	testkit.Eventually(t, "the sandbox is ready", func() bool {
		select {
		case <-p.Done:
			t.Fatal("the sandbox has ended")
		default:
		}
		_, err := os.Stat(file)
		return err == nil
	})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return env
}

// payments are those with a reference, each with its state.
func payments(t *testing.T, env map[string]string, reference string) (found []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", env["TOLLGATE_URL"]+"/v1/payments?reference="+reference, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+env["TOLLGATE_TOKEN"])
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list struct{ Data []struct{ ID, Status string } }
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Data {
		found = append(found, p.ID+" "+p.Status)
	}
	return found
}

// build makes a program of a package, in a module at dir.
func build(t *testing.T, dir, pkg string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", file, pkg)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// python is one that has the libraries: Debian's own, where another comes first.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import httpx, jwt, cryptography").Run() == nil {
			return name
		}
	}
	t.Fatal("no Python has httpx, jwt and cryptography: install python3-httpx python3-jwt python3-cryptography")
	return ""
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func freePort(t *testing.T) string {
	t.Helper()
	addr, err := redistest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr[strings.LastIndex(addr, ":")+1:]
}

func timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
