package scripts_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// secretSettings never stand in a file.
var secretSettings = []string{"TOLLGATE_REDIS_URL", "TOLLGATE_SECRET_KEY", "TOLLGATE_SECRET_KEY_PREVIOUS", "TOLLGATE_SIGNING_KEY"}

// edgeSettings are the bindings of an object that come from the environment.
func edgeSettings(t *testing.T) (names []string) {
	t.Helper()
	text := read(t, "../cmd/edge/workerd.capnp")
	for _, m := range regexp.MustCompile(`name = "(TOLLGATE_\w+)", (\w+) = "?(\w+)`).FindAllStringSubmatch(text, -1) {
		switch {
		case m[2] == "fromEnvironment" && m[3] == m[1]:
			names = append(names, m[1])
		case m[2] != "durableObjectNamespace":
			t.Errorf("the binding %s is no setting of the environment: %s", m[1], m[0])
		}
	}
	for _, name := range secretSettings {
		if !slices.Contains(names, name) {
			t.Errorf("workerd.capnp does not take %s from the environment", name)
		}
	}
	return names
}

// What Cloudflare is told is what workerd is: modules, bindings, flags.
func TestWrangler(t *testing.T) {
	var w struct {
		Name      string   `toml:"name"`
		Main      string   `toml:"main"`
		Date      string   `toml:"compatibility_date"`
		Flags     []string `toml:"compatibility_flags"`
		NoBundle  bool     `toml:"no_bundle"`
		BaseDir   string   `toml:"base_dir"`
		Additions bool     `toml:"find_additional_modules"`
		Rules     []struct {
			Type  string   `toml:"type"`
			Globs []string `toml:"globs"`
		} `toml:"rules"`
		Objects struct {
			Bindings []struct {
				Name  string `toml:"name"`
				Class string `toml:"class_name"`
			} `toml:"bindings"`
		} `toml:"durable_objects"`
		Migrations []struct {
			Tag     string   `toml:"tag"`
			Classes []string `toml:"new_sqlite_classes"`
		} `toml:"migrations"`
		Vars map[string]string `toml:"vars"`
	}
	meta, err := toml.DecodeFile("edge/wrangler.toml", &w)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		t.Errorf("keys that are not known: %v", unknown)
	}
	text, runs := read(t, "edge/wrangler.toml"), read(t, "../cmd/edge/workerd.capnp")
	for _, name := range edgeSettings(t) {
		_, public := w.Vars[name]
		secret := slices.Contains(secretSettings, name)
		if public == secret || secret && !strings.Contains(text, "wrangler secret put "+name) {
			t.Errorf("%s is a secret: %v; it stands among the vars: %v", name, secret, public)
		}
	}
	for name := range w.Vars {
		if !slices.Contains(edgeSettings(t), name) {
			t.Errorf("%s is no binding of workerd.capnp", name)
		}
	}
	for _, same := range []string{`compatibilityDate = "` + w.Date + `"`, `compatibilityFlags = ["` + strings.Join(w.Flags, `", "`) + `"]`} {
		if !strings.Contains(runs, same) {
			t.Errorf("workerd.capnp does not say %s", same)
		}
	}
	if w.Main != "../../bin/edge/worker.js" || w.BaseDir != filepath.Dir(w.Main) || !w.NoBundle || !w.Additions {
		t.Errorf("it does not take the modules that `make edge` writes: %s of %s", w.Main, w.BaseDir)
	}
	if len(w.Objects.Bindings) != 1 || len(w.Migrations) != 1 || len(w.Migrations[0].Classes) != 1 {
		t.Fatalf("bindings %v and migrations %v, want the one of the object", w.Objects.Bindings, w.Migrations)
	}
	b := w.Objects.Bindings[0]
	if !strings.Contains(runs, `(name = "`+b.Name+`", durableObjectNamespace = "`+b.Class+`")`) || w.Migrations[0].Classes[0] != b.Class {
		t.Errorf("binding %v, migration %v: workerd.capnp has others", b, w.Migrations[0])
	}
	for _, module := range regexp.MustCompile(`embed "([^"]+)"`).FindAllStringSubmatch(runs, -1) {
		if !slices.ContainsFunc(w.Rules, func(r struct {
			Type  string   `toml:"type"`
			Globs []string `toml:"globs"`
		},
		) bool {
			return slices.Contains(r.Globs, "*"+filepath.Ext(module[1]))
		}) {
			t.Errorf("no rule has %s", module[1])
		}
	}
}

// The app of the edge is built from its image, and its settings are those of an object.
func TestFlyOfTheEdge(t *testing.T) {
	var fly flyConfig
	meta, err := toml.DecodeFile("edge/fly.toml", &fly)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		t.Errorf("keys that are not known: %v", unknown)
	}
	for _, file := range []string{fly.Build.Dockerfile, fly.Build.Ignorefile} {
		if _, err := os.Stat(filepath.Join("..", file)); file == "" || err != nil {
			t.Errorf("[build] names %q: %v", file, err)
		}
	}
	settings := edgeSettings(t)
	for _, name := range slices.Sorted(maps.Keys(fly.Env)) {
		if !slices.Contains(settings, name) || slices.Contains(secretSettings, name) {
			t.Errorf("[env] has %s, which is a secret or no binding of workerd.capnp", name)
		}
	}
	if len(fly.Services) != 1 || len(fly.Services[0].Checks) != 1 || fly.Services[0].Checks[0].Path != "/readyz?for=quotes" {
		t.Fatalf("services %+v, want one that is checked by /readyz?for=quotes", fly.Services)
	}
	port := regexp.MustCompile(`--socket-addr=http=\*:(\d+)"`).FindStringSubmatch(read(t, "edge/Dockerfile"))
	if port == nil || port[1] != "8080" || fly.Services[0].InternalPort != 8080 || !strings.Contains(read(t, "edge/Dockerfile"), "/dev/tcp/127.0.0.1/8080 ") {
		t.Errorf("the image listens on %v, its service is on %d", port, fly.Services[0].InternalPort)
	}
}

// Every path that the images copy is there, and is let into their context.
func TestImagesCopyWhatExists(t *testing.T) {
	for _, file := range []string{"Dockerfile", "edge/Dockerfile"} {
		allowed := read(t, file+".dockerignore")
		copied := 0
		for _, line := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(read(t, file), -1) {
			for name := range strings.FieldsSeq(line[1]) {
				copied++
				if _, err := os.Stat(filepath.Join("..", name)); err != nil || name != "." && !strings.Contains(allowed, "\n!"+name+"\n") {
					t.Errorf("%s copies %s, which is not there or not let in: %v", file, name, err)
				}
			}
		}
		if copied < 3 {
			t.Errorf("%s copies %d paths: the test misreads it", file, copied)
		}
	}
	for _, name := range regexp.MustCompile(`(?:cmd/edge|scripts/edge)/[\w.-]+\.\w+`).FindAllString(read(t, "../Makefile"), -1) {
		if _, err := os.Stat(filepath.Join("..", name)); err != nil {
			t.Errorf("the Makefile names %s: %v", name, err)
		}
	}
}
