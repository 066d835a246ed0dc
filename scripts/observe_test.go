package scripts_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Every alert leads to a runbook that is there, and fires in a test of promtool.
func TestAlertsHaveRunbooks(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
				Labels      map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "observe/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	fired, described, count := read(t, "observe/alerts_test.yaml"), read(t, "../handlers/docs/alerts.md"), 0
	runbooks := anchorsOf(described)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			count++
			runbook, ok := strings.CutPrefix(r.Annotations["runbook_url"], "{{ $externalLabels.tollgate }}/docs/alerts#")
			if !ok || !slices.Contains(runbooks, runbook) {
				t.Errorf("%s: there is no runbook %q", r.Alert, r.Annotations["runbook_url"])
			}
			if !strings.Contains(fired, "alertname: "+r.Alert+"\n") {
				t.Errorf("%s fires in no test of alerts_test.yaml", r.Alert)
			}
			if !strings.Contains(described, "`"+r.Alert+"`") {
				t.Errorf("%s is not in handlers/docs/alerts.md", r.Alert)
			}
			if r.Annotations["summary"] == "" || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
				t.Errorf("%s: %v %v", r.Alert, r.Annotations, r.Labels)
			}
		}
	}
	if count < 20 {
		t.Errorf("%d alerts: the test does not see them", count)
	}
}

// composeFile is what compose.yaml has; another key is a spelling mistake.
type composeFile struct {
	Name     string         `yaml:"name"`
	Tollgate composeService `yaml:"x-tollgate"`
	Services map[string]composeService
	Volumes  map[string]any
}

type composeService struct {
	Image       string            `yaml:"image"`
	Build       map[string]string `yaml:"build"`
	Command     any               `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	DependsOn   any               `yaml:"depends_on"`
	Restart     string            `yaml:"restart"`
	Grace       string            `yaml:"stop_grace_period"`
	ReadOnly    bool              `yaml:"read_only"`
	Profiles    []string          `yaml:"profiles"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	Healthcheck any               `yaml:"healthcheck"`
}

// What compose.yaml mounts is there, its processes are commands, Prometheus asks those
// that it starts, and nothing is reachable from another machine.
func TestCompose(t *testing.T) {
	var c composeFile
	if err := yaml.UnmarshalWithOptions([]byte(read(t, "compose.yaml")), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{c.Tollgate.Build["dockerfile"]} {
		read(t, filepath.Join("..", file))
	}
	mounted := 0
	for name, s := range c.Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s is reachable from elsewhere: %s", name, p)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			switch _, volume := c.Volumes[from]; {
			case strings.HasPrefix(from, "./"):
				read(t, from)
				mounted++
			case !volume && !strings.HasPrefix(from, "${"):
				t.Errorf("%s mounts %s, which is no volume", name, from)
			}
		}
	}
	if mounted != 5 {
		t.Errorf("%d files are mounted", mounted)
	}
	prometheus := read(t, "observe/prometheus.yaml")
	for _, process := range []string{"serve", "work"} {
		if _, ok := c.Services[process]; !ok || !strings.Contains(prometheus, "names: ["+process+"], type: A, port: 9090") {
			t.Errorf("Prometheus does not ask %s", process)
		}
	}
	if redis := c.Services["redis"].Command; !regexp.MustCompile(`--appendfsync always .*--maxmemory-policy noeviction$`).MatchString(redis.(string)) {
		t.Errorf("Redis runs as %s", redis)
	}
}
