// Package scripts_test holds fly.toml, the image and the program together: what
// one of them names, the others must have.
package scripts_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

type check struct {
	Processes []string `toml:"processes"`
	Type      string   `toml:"type"`
	Port      int      `toml:"port"`
	Method    string   `toml:"method"`
	Path      string   `toml:"path"`
	Interval  string   `toml:"interval"`
	Timeout   string   `toml:"timeout"`
	Grace     string   `toml:"grace_period"`
}

// flyConfig is all of fly.toml; a key that is not here is a spelling mistake.
type flyConfig struct {
	App           string `toml:"app"`
	PrimaryRegion string `toml:"primary_region"`
	KillSignal    string `toml:"kill_signal"`
	KillTimeout   string `toml:"kill_timeout"`
	Build         struct {
		Dockerfile string `toml:"dockerfile"`
		Ignorefile string `toml:"ignorefile"`
	} `toml:"build"`
	Deploy struct {
		Release  string `toml:"release_command"`
		Strategy string `toml:"strategy"`
	} `toml:"deploy"`
	Files []struct {
		Path   string `toml:"guest_path"`
		Secret string `toml:"secret_name"`
	} `toml:"files"`
	Processes map[string]string `toml:"processes"`
	Env       map[string]string `toml:"env"`
	Services  []struct {
		Processes    []string `toml:"processes"`
		Protocol     string   `toml:"protocol"`
		InternalPort int      `toml:"internal_port"`
		AutoStop     string   `toml:"auto_stop_machines"`
		AutoStart    bool     `toml:"auto_start_machines"`
		MinRunning   int      `toml:"min_machines_running"`
		Ports        []struct {
			Port     int      `toml:"port"`
			Handlers []string `toml:"handlers"`
		} `toml:"ports"`
		Concurrency struct {
			Type string `toml:"type"`
			Soft int    `toml:"soft_limit"`
			Hard int    `toml:"hard_limit"`
		} `toml:"concurrency"`
		Checks []check `toml:"http_checks"`
	} `toml:"services"`
	Checks  map[string]check `toml:"checks"`
	Metrics struct {
		Port int    `toml:"port"`
		Path string `toml:"path"`
	} `toml:"metrics"`
	VM []struct {
		Processes []string `toml:"processes"`
		Size      string   `toml:"size"`
		Memory    string   `toml:"memory"`
	} `toml:"vm"`
}

func TestFly(t *testing.T) {
	var fly flyConfig
	meta, err := toml.DecodeFile("../fly.toml", &fly)
	if err != nil {
		t.Fatal(err)
	}
	// force_https is among what this refuses: an API that redirects http
	// teaches its clients to send their tokens in the clear.
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		t.Errorf("keys that are not known: %v", unknown)
	}
	for _, file := range []string{fly.Build.Dockerfile, fly.Build.Ignorefile} {
		if _, err := os.Stat(filepath.Join("..", file)); file == "" || err != nil {
			t.Errorf("[build] names %q: %v", file, err)
		}
	}

	var processes []string
	for name, command := range fly.Processes {
		processes = append(processes, name)
		if _, err := os.Stat(filepath.Join("../cmd/tollgate/server", command+".go")); err != nil {
			t.Errorf("process %s runs the command %q: %v", name, command, err)
		}
	}
	slices.Sort(processes)
	if !slices.Equal(processes, []string{"serve", "work"}) {
		t.Errorf("processes %v, want serve and work", processes)
	}

	if len(fly.Files) != 1 || fly.Deploy.Release != "provision -f "+fly.Files[0].Path {
		t.Errorf("the release command %q does not provision the one file of %+v", fly.Deploy.Release, fly.Files)
	} else if !strings.Contains(read(t, "../fly.toml"), "#   fly secrets set "+fly.Files[0].Secret+`="$(base64 <tollgate.yaml)"`) {
		t.Errorf("nothing says how the secret %s is set", fly.Files[0].Secret)
	}

	if len(fly.Services) != 1 {
		t.Fatalf("%d services, want the one of serve", len(fly.Services))
	}
	service := fly.Services[0]
	if !slices.Equal(service.Processes, []string{"serve"}) {
		t.Errorf("the service is that of %v", service.Processes)
	}
	if want := port(t, fly.Env["TOLLGATE_ADDR"]); service.InternalPort != want {
		t.Errorf("internal_port %d, but serve listens on %d", service.InternalPort, want)
	}
	if len(service.Ports) != 1 || service.Ports[0].Port != 443 || !slices.Contains(service.Ports[0].Handlers, "tls") {
		t.Errorf("ports %+v, want 443 with TLS alone", service.Ports)
	}
	if len(service.Checks) != 1 || service.Checks[0].Path != "/readyz?for=quotes" {
		t.Errorf("checks of serve %+v, want /readyz?for=quotes", service.Checks)
	}

	metrics := port(t, fly.Env["TOLLGATE_METRICS_ADDR"])
	if fly.Metrics.Port != metrics || fly.Metrics.Path != "/metrics" {
		t.Errorf("[metrics] %+v, but they are on port %d at /metrics", fly.Metrics, metrics)
	}
	if work := fly.Checks["work"]; work.Port != metrics || work.Path != "/readyz" || !slices.Equal(work.Processes, []string{"work"}) {
		t.Errorf("check of work %+v, want /readyz on port %d", work, metrics)
	}
}

// The variable that the linker gives a release's name exists: it says nothing of one
// that does not.
func TestVersionIsLinked(t *testing.T) {
	linked := regexp.MustCompile(`-X tollgate/(\S+)\.(\w+)=`)
	for _, file := range []string{"../Makefile", "Dockerfile"} {
		m := linked.FindStringSubmatch(read(t, file))
		if m == nil {
			t.Errorf("%s links no version", file)
			continue
		}
		declared := regexp.MustCompile(`(?m)^var ` + m[2] + ` = ""$`)
		files, _ := filepath.Glob(filepath.Join("..", m[1], "*.go"))
		if !slices.ContainsFunc(files, func(name string) bool { return declared.MatchString(read(t, name)) }) {
			t.Errorf("%s: %s declares no variable %s", file, m[1], m[2])
		}
	}
}

// Every variable that a file here names is a setting of the program.
func TestVariablesExist(t *testing.T) {
	settings := read(t, "../cmd/tollgate/cli/settings.go")
	variable := regexp.MustCompile(`TOLLGATE_[A-Z_]*[A-Z]`)
	// Those that the tests and scripts read themselves.
	others := []string{"TOLLGATE_TEST_REDIS", "TOLLGATE_TEST_BUILDS", "TOLLGATE_TEST_PREVIEWS", "TOLLGATE_TEST_TEMPLATES", "TOLLGATE_TEST_EXAMPLES", "TOLLGATE_TEST_CONFORMANCE", "TOLLGATE_TEST_FAIR", "TOLLGATE_TEST_MEMORY", "TOLLGATE_TEST_CORES", "TOLLGATE_TEST_EDGE", "TOLLGATE_TEST_SANDBOX", "TOLLGATE_TEST_CONSOLE", "TOLLGATE_TEST_SCREENSHOTS", "TOLLGATE_TEST_SEEDS", "TOLLGATE_TEST_TEETH", "TOLLGATE_TEST_FAULTS", "TOLLGATE_TEST_FAULTS_COUNT", "TOLLGATE_TEST_FAULTS_SEED", "TOLLGATE_TEST_LOADED", "TOLLGATE_REDIS_PORT"}
	for _, file := range []string{"../fly.toml", "../Makefile", "../.ci/run", "Dockerfile", "rate.sh", "redis.sh", "compose.yaml"} {
		for _, name := range variable.FindAllString(read(t, file), -1) {
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "TOLLGATE_"), "_", "-"))
			if !slices.Contains(others, name) && !strings.Contains(settings, strconv.Quote(flag)) {
				t.Errorf("%s names %s, which is no setting", file, name)
			}
		}
	}
}

// The images are built with the Go of go.mod, and .dockerignore lets everything
// through that their programs are built from, embedded files too.
func TestImagesHaveWhatTheProgramsNeed(t *testing.T) {
	for _, image := range []struct{ file, program, os, arch string }{
		{"Dockerfile", "./cmd/tollgate", "", ""}, {"edge/Dockerfile", "./cmd/edge", "js", "wasm"},
	} {
		version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
		if !strings.Contains(read(t, image.file), "FROM golang:"+version[1]+" ") {
			t.Errorf("%s does not build with Go %s", image.file, version[1])
		}
		var allowed []string
		for line := range strings.Lines(read(t, image.file+".dockerignore")) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
				allowed = append(allowed, name)
			}
		}
		for _, name := range builtFrom(t, image.program, image.os, image.arch) {
			first, _, below := strings.Cut(name, "/")
			if (below && !slices.Contains(allowed, first) && !slices.Contains(allowed, name)) ||
				(!below && !slices.Contains(allowed, "*.go")) ||
				strings.HasSuffix(name, "_test.go") || strings.Contains("/"+name, "/testdata/") {
				t.Errorf("%s.dockerignore keeps %s out of the image's build", image.file, name)
			}
		}
	}
}

// builtFrom are the files of this module that a program is built from.
func builtFrom(t *testing.T, program, goos, arch string) (names []string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{if and .Module .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}`,
		program)
	list.Dir = root
	if goos != "" {
		list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch)
	}
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range strings.Fields(string(out)) {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.ToSlash(name))
	}
	if len(names) < 10 {
		t.Fatalf("%s is built from %d files: go list is misread", program, len(names))
	}
	return names
}

func port(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatalf("address %q: %v", addr, err)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
