package tollgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "tollgate"

// layers gives each top-level folder its height. Imports go down, or stay in
// their folder: cmd → handlers → { rediskv, wasm } → tollgate.
var layers = map[string]int{".": 0, "rediskv": 1, "wasm": 1, "handlers": 2, "cmd": 3, "scripts": 4}

// rooms are the packages of each folder, "" its own, and which of them each may
// import. Each folder tells one story: handlers and its worker meet in Redis, all
// of rediskv stands on its core, and every command on cli.
var rooms = map[string]map[string][]string{
	"rediskv": {
		"":            {"bodies", "gcra", "history", "peer", "record", "script"},
		"accounts":    {"", "eventlog", "gcra", "record", "rules", "script"},
		"agenda":      {"", "script"},
		"archive":     {"", "history", "ledger", "packs", "packs/lists", "packs/shelf", "packs/shelves", "payments", "record", "script"},
		"audittree":   {"", "eventlog", "record", "script", "streams"},
		"backup":      {"", "checks", "history", "peer", "rdb", "store"},
		"bodies":      {},
		"erase":       {"", "archive", "archive/logs", "eventlog", "history", "ledger", "payments", "record", "script", "store", "streams"},
		"eventlog":    {"", "history", "peer", "record", "script", "streams"},
		"checks":      {"", "accounts", "checks/look", "checks/sums", "consistency", "eventlog", "exports", "keyring", "ledger", "payments", "peer", "record", "streams", "webhooks"},
		"checks/look": {"", "consistency", "eventlog", "ledger", "payments", "record", "streams"},
		"checks/sums": {"", "exports", "record", "webhooks"},
		"consistency": {},
		"exports":     {"", "eventlog", "frames", "ledger", "payments", "record", "script", "streams"},
		"frames":      {},
		"gcra":        {},
		"hashes":      {""},
		"health":      {"", "peer", "script"},
		"history":     {"peer", "record", "script"},
		"instances":   {"", "record"},
		"keyring":     {"", "record", "script"},
		"ledger":      {"", "eventlog", "hashes", "history", "postings", "record", "script", "streams"},
		"packs":       {"frames"},
		"packs/lists": {"packs"},
		"packs/shelf": {},
		"peer":        {},
		"payments":    {"", "accounts", "bodies", "hashes", "ledger", "payouts", "record", "script"},
		"payouts":     {"", "accounts", "history", "ledger", "record", "script"},
		"postings":    {"", "record", "script"},
		"provision":   {"", "accounts", "record", "rules"},
		"rdb":         {},
		"record":      {"bodies"},
		"redistest":   {"", "store"},
		"rules":       {"", "instances", "record", "script"},
		"sandbox":     {""},
		"script":      {},
		"streams":     {"", "frames", "peer", "record", "script"},
		"snapshot":    {"", "store"},
		"testkit":     {"", "accounts", "checks", "ledger", "record", "redistest", "store"},
		"store":       {"", "accounts", "agenda", "audittree", "checks", "eventlog", "exports", "health", "instances", "keyring", "ledger", "payments", "payouts", "postings", "provision", "rules", "sandbox", "webhooks"},
		"webhooks":    {"", "bodies", "eventlog", "history", "ledger", "peer", "record", "script", "streams"},

		"archive/logs":          {"", "eventlog", "history", "packs", "packs/shelf", "packs/shelves", "postings", "record", "script", "streams"},
		"packs/shelves":         {"packs", "packs/shelf"},
		"packs/shelf/s3":        {"packs/shelf"},
		"packs/shelf/s3/s3test": {},
	},
	"wasm": {
		"":         {"abi"},
		"abi":      {},
		"compiler": {"abi"},
	},
	"handlers": {
		"":                {"access", "audit", "auth", "connection", "egress", "input", "oauth", "problem", "rate", "rulesync", "secret", "shadow", "share"},
		"access":          {"auth", "input"},
		"attack":          {},
		"audit":           {"tlog"},
		"auth":            {},
		"conform":         {},
		"docs":            {"input"},
		"connection":      {"share"},
		"console":         {},
		"egress":          {},
		"input":           {"problem", "secret"},
		"keyring":         {"auth", "secret"},
		"mcp":             {"", "auth"},
		"oauth":           {"auth", "input", "problem", "secret"},
		"problem":         {},
		"rate":            {},
		"rulesync":        {"problem", "share"},
		"secret":          {},
		"service":         {"", "keyring", "secret"},
		"shadow":          {"problem", "rulesync"},
		"share":           {},
		"spill":           {},
		"share/fair":      {"share"},
		"tlog":            {},
		"tlog/auditor":    {"tlog", "tlog/checkpoint"},
		"tlog/checkpoint": {"tlog"},
		"worker":          {"keyring", "secret", "worker/delivery", "worker/export", "worker/hook", "worker/loop", "worker/sealing"},
		"worker/delivery": {"egress", "secret", "worker/loop"},
		"worker/export":   {"worker/loop"},
		"worker/hook":     {},
		"worker/loop":     {},
		"worker/sealing":  {"audit", "keyring", "tlog", "tlog/checkpoint", "worker/hook", "worker/loop"},
	},
	"cmd/edge": {
		"":         {"host"},
		"edgetest": {},
		"host":     {},
		"page":     {"host"},
	},
	"cmd/tollgate": {
		"":             {"cli", "client", "console", "dev", "explain", "keys", "profile", "provision", "rules", "server", "tracing", "webhooks"},
		"cli":          {},
		"client":       {"cli", "client/proof"},
		"client/proof": {"cli"},
		"clitest":      {"cli"},
		"console":      {"cli", "client", "examine", "rules", "rules/replay", "rules/source", "server"},
		"dev":          {"cli", "client", "console", "examine", "provision", "rules", "server", "tracing", "webhooks"},
		"examine":      {"cli"},
		"explain":      {"cli", "client"},
		"keys":         {"cli", "server"},
		"profile":      {"cli"},
		"provision":    {"cli"},
		"rules":        {"cli", "examine", "rules/fees", "rules/replay", "rules/source"},
		"rules/fees":   {"cli", "examine", "rules/source"},
		"rules/replay": {"cli", "client", "examine", "rules/source"},
		"rules/source": {"cli", "examine"},
		"server":       {"cli", "client", "examine", "profile", "tracing"},
		"tracing":      {},
		"webhooks":     {"cli", "client"},
	},
}

// testsOnly are packages that no program may hold.
var testsOnly = []string{"rediskv/redistest", "rediskv/testkit", "rediskv/packs/shelf/s3/s3test", "handlers/attack", "handlers/conform", "handlers/spill", "handlers/share/fair", "cmd/edge/edgetest", "cmd/tollgate/clitest", "scripts/bench", "scripts/simulate", "scripts/simulate/draw", "scripts/simulate/ledger", "scripts/simulate/story"}

// owners are the packages that alone know a third-party module, with /... and
// those below. Tests are held to them too.
var owners = map[string][]string{
	"github.com/ericlagergren/decimal":       {"."},
	"github.com/nlnwa/whatwg-url":            {"."}, // in its tests
	"github.com/rickar/cal/v2":               {"."},
	"github.com/redis/go-redis/v9":           {"rediskv/..."},
	"github.com/tetratelabs/wazero":          {"wasm"},
	"github.com/go-jose/go-jose/v4":          {"handlers/auth"},
	"github.com/julienschmidt/httprouter":    {"handlers"},
	"github.com/alicebob/miniredis/v2":       {"rediskv/backup", "rediskv/redistest", "cmd/sandbox", "cmd/tollgate/...", "scripts/simulate"},
	"github.com/getkin/kin-openapi":          {"handlers/conform"},
	"github.com/spf13/cobra":                 {"cmd/tollgate/..."},
	"github.com/modelcontextprotocol/go-sdk": {"handlers/mcp", "cmd/tollgate"},
	"github.com/prometheus/client_golang":    {"cmd/tollgate/server"},
	"github.com/goccy/go-yaml":               {"cmd/tollgate/provision", "scripts"},
	"go.opentelemetry.io/otel":               {"cmd/tollgate/tracing"},
	"go.opentelemetry.io/proto":              {"cmd/tollgate", "cmd/tollgate/tracing"}, // the first in its tests
	"github.com/santhosh-tekuri/jsonschema":  {"handlers/conform"},
	"github.com/klauspost/compress":          {"rediskv/frames"},
	"github.com/minio/minio-go/v7":           {"rediskv/packs/shelf/s3"},
	"github.com/johannesboyne/gofakes3":      {"rediskv/packs/shelf/s3/s3test"},
	"github.com/transparency-dev/merkle":     {"handlers/tlog", "handlers/tlog/auditor"},
	"golang.org/x/mod":                       {"handlers/tlog/checkpoint"},

	"github.com/standard-webhooks/standard-webhooks": {"handlers/worker", "scripts/examples"},
}

func TestImportsRunOneWay(t *testing.T) {
	for _, f := range sources(t) {
		for _, imported := range f.imports() {
			target, ours := cut(imported)
			if !ours {
				continue
			}
			from, to := top(f.pkg), top(target)
			height, known := layers[to]
			switch {
			case !known:
				t.Errorf("%s imports %s, which is no package of the house", f.name, imported)
			case from == "scripts" || target == f.pkg: // an external test
			case f.pkg == "handlers/egress" && !f.test && from != to && to != ".": // what both sides must know of URLs
				t.Errorf("%s: %s must not import %s", f.name, f.pkg, target)
			case slices.Contains(testsOnly, target) && !f.test && !slices.Contains(testsOnly, f.pkg):
				t.Errorf("%s imports %s, which is for tests", f.name, target)
			case slices.Contains(testsOnly, target): // a test may
			case f.test && target == "wasm": // it looks at tickets as those who verify them do
			case from != to && height >= layers[from]:
				t.Errorf("%s: %s must not import %s", f.name, from, to)
			}
		}
	}
}

// Rooms know each other in the directions of the table, and without a circle.
func TestRooms(t *testing.T) {
	for _, f := range sources(t) {
		folder, room := roomOf(f.pkg)
		if f.test || folder == "" {
			continue
		}
		known, listed := rooms[folder][room]
		if !listed {
			t.Errorf("%s: %s is in no table of rooms", f.name, f.pkg)
		}
		for _, imported := range f.imports() {
			target, ours := cut(imported)
			if in, beside := roomOf(target); ours && in == folder && !slices.Contains(known, beside) {
				t.Errorf("%s: %s must not import %s", f.name, f.pkg, target)
			}
		}
	}
	for folder, known := range rooms {
		var visit func(room string, way []string)
		visit = func(room string, way []string) {
			if slices.Contains(way, room) {
				t.Fatalf("a circle in %s: %v %s", folder, way, room)
			}
			for _, next := range known[room] {
				visit(next, append(slices.Clone(way), room))
			}
		}
		for room := range known {
			visit(room, nil)
		}
	}
}

// roomOf is the folder of a package and its room there; no folder for one that
// stands in none.
func roomOf(pkg string) (folder, room string) {
	for folder := range rooms {
		if pkg == folder {
			return folder, ""
		}
		if room, ok := strings.CutPrefix(pkg, folder+"/"); ok {
			return folder, room
		}
	}
	return "", ""
}

// Nobody outside rediskv reaches past its rooms to the database.
func TestNobodyReachesPastTheRooms(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || top(f.pkg) == "rediskv" {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Redis", "Blocking", "Batched", "Timed"}, s.Sel.Name) && strings.HasSuffix(strings.ToLower(types.ExprString(s.X)), "store") {
				t.Errorf("%s: %s.%s", f.set.Position(s.Pos()), types.ExprString(s.X), s.Sel.Name)
			}
			return true
		})
	}
}

// No package below the root grows beyond what a reader can hold: Go files and
// lines of product. Those that are larger are to become smaller.
func TestSizes(t *testing.T) {
	larger := map[string][2]int{"handlers": {40, 6_000}}
	files, lines := map[string]int{}, map[string]int{}
	for _, f := range sources(t) {
		if !f.test {
			files[f.pkg]++
			lines[f.pkg] += f.set.File(f.file.Pos()).LineCount()
		}
	}
	for pkg := range files {
		most := [2]int{25, 3_500}
		if l, ok := larger[pkg]; ok {
			most = l
		}
		if pkg == "." {
			most = [2]int{60, 8_000}
		}
		if files[pkg] > most[0] || lines[pkg] > most[1] {
			t.Errorf("%s has %d files and %d lines; at most %d and %d", pkg, files[pkg], lines[pkg], most[0], most[1])
		}
	}
}

func TestEachLibraryHasItsPackage(t *testing.T) {
	for _, f := range sources(t) {
		for _, imported := range f.imports() {
			for library, pkgs := range owners {
				if (imported == library || strings.HasPrefix(imported, library+"/")) && !owns(pkgs, f.pkg) {
					t.Errorf("%s imports %s; only %s may", f.name, imported, strings.Join(pkgs, ", "))
				}
			}
		}
	}
}

func owns(pkgs []string, pkg string) bool {
	return slices.ContainsFunc(pkgs, func(p string) bool {
		folder, below := strings.CutSuffix(p, "/...")
		return pkg == folder || below && strings.HasPrefix(pkg, folder+"/")
	})
}

// Time, randomness and configuration come in through fields, and time zones from
// the program's own database: nothing below cmd asks the machine for them.
func TestNothingBelowCmdAsksTheMachine(t *testing.T) {
	asks := map[string][]string{
		"time": {"Now", "Since", "Until", "LoadLocation", "Local"},
		"os":   {"Getenv", "LookupEnv", "Environ", "Args"},
	}
	for _, f := range sources(t) {
		if f.test || top(f.pkg) == "cmd" || slices.Contains(testsOnly, f.pkg) {
			continue
		}
		for _, imported := range f.imports() {
			if slices.Contains([]string{"crypto/rand", "math/rand", "math/rand/v2"}, imported) {
				t.Errorf("%s imports %s", f.name, imported)
			}
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && slices.Contains(asks[x.Name], s.Sel.Name) {
					t.Errorf("%s: %s.%s", f.set.Position(s.Pos()), x.Name, s.Sel.Name)
				}
			}
			return true
		})
	}
}

// edgeModules are all third-party modules that the program for edge runtimes is made
// of. Whoever adds one looks at its size first: there are gates (scripts/edge,
// scripts/sandbox).
var edgeModules = []string{
	"github.com/cespare/xxhash/v2", "github.com/ericlagergren/decimal", "github.com/go-jose/go-jose/v4", "github.com/go-json-experiment/json",
	"github.com/hashicorp/golang-lru/v2", "github.com/julienschmidt/httprouter", "github.com/klauspost/compress", "github.com/oklog/ulid/v2",
	"github.com/redis/go-redis/v9", "github.com/rickar/cal/v2", "github.com/tetratelabs/wazero",
	"go.uber.org/atomic", "golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/text",
}

// The program for edge runtimes has no pages, no MCP, no tracing, no metrics, no
// embedded Redis and no client of a file store.
func TestEdgeImports(t *testing.T) {
	checkProgram(t, "./cmd/edge", edgeModules, "cmd/tollgate", "cmd/sandbox", "handlers/console", "handlers/mcp", "handlers/worker")
}

// The sandbox in a page has an embedded Redis and a worker, and no command line.
func TestPageImports(t *testing.T) {
	embedded := []string{"github.com/alicebob/miniredis/v2", "github.com/yuin/gopher-lua", "golang.org/x/mod"} // and its worker signs notes
	checkProgram(t, "./cmd/edge/page", slices.Concat(edgeModules, embedded), "cmd/tollgate", "handlers/console")
}

// checkProgram holds a WebAssembly program to the modules that it may be made of, and
// to the rooms that it may not have.
func checkProgram(t *testing.T, program string, modules []string, without ...string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", program)
	list.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	refused := []string{"html/template", "text/template", "testing", "expvar", "net/http/pprof", "net/http/httptest"}
	found := 0
	for line := range strings.Lines(string(out)) {
		pkg, from, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch folder, ours := cut(pkg); {
		case from == "" && slices.Contains(refused, pkg), from != "" && from != module && !slices.Contains(modules, from):
			t.Errorf("%s imports %s", program, pkg)
		case ours && (slices.ContainsFunc(without, func(room string) bool { return strings.HasPrefix(folder, room) }) || slices.Contains(testsOnly, folder)):
			t.Errorf("%s imports %s", program, pkg)
		case ours:
			found++
		}
	}
	if found < 20 {
		t.Errorf("%d packages of the house: go list is misread", found)
	}
}

// The top level is the house of the design and nothing else: no internal, pkg,
// docs or utils.
func TestTopLevelFolders(t *testing.T) {
	allowed := []string{"cmd", "handlers", "rediskv", "scripts", "wasm", "bin", "node_modules"} // the last two are not kept
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s/ is no folder of the house", e.Name())
		}
	}
}

type source struct {
	name string // from the module's root
	pkg  string // its folder, "." for the root
	test bool
	set  *token.FileSet
	file *ast.File
}

// sources parses every Go file of the module. Folders with a go.mod are modules
// of their own.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "testdata"
			if name != "." && (hidden || err == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			return err
		}
		all = append(all, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), set, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found %d Go files: the test does not see the module", len(all))
	}
	return all
}

func (f source) imports() []string {
	var paths []string
	for _, s := range f.file.Imports {
		paths = append(paths, strings.Trim(s.Path.Value, `"`))
	}
	return paths
}

// cut gives the folder of an import of this module.
func cut(imported string) (folder string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// top is the first element of a folder.
func top(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}
