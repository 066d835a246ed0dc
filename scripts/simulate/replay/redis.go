package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// embedded is the module of the embedded Redis.
const embedded = "github.com/alicebob/miniredis/v2"

// ofRedis are changes of it. What scripts do is the same: they cannot set a global, and
// all that a run is given is set anew. A state in which a script has failed is not kept.
var ofRedis = []change{
	{"cmd_scripting.go", "\tparsedScripts = sync.Map{}\n", "\tparsedScripts = sync.Map{}\n\tkept sync.Mutex\n\tkeptState *lua.LState\n"},
	{"cmd_scripting.go", "\tl := lua.NewState(lua.Options{SkipOpenLibs: true})\n\tdefer l.Close()\n", "\tkept.Lock()\n\tl := keptState\n\tkeptState = nil\n\tkept.Unlock()\n\tmade := l == nil\n\tif made {\n\t\tl = lua.NewState(lua.Options{SkipOpenLibs: true})\n"},
	{"cmd_scripting.go", "\trequireGlobal(l, \"cjson\", \"json\")\n", "\trequireGlobal(l, \"cjson\", \"json\")\n\t}\n"},
	{"cmd_scripting.go", "\tl.RegisterModule(\"os\", mkLuaOS())\n\n\t_ = doScript(l, protectGlobals)\n", "\tif made {\n\t\tl.RegisterModule(\"os\", mkLuaOS())\n\t\t_ = doScript(l, protectGlobals)\n\t}\n"},
	{"cmd_scripting.go", "\tluaToRedis(l, c, l.Get(1))\n", "\tluaToRedis(l, c, l.Get(1))\n\tl.SetTop(0)\n\tkept.Lock()\n\tkeptState = l\n\tkept.Unlock()\n"},
	// When a second has passed, only keys that end are looked at, and none are sorted.
	{"db.go", "\tfor _, key := range db.allKeys() {\n\t\tif value, ok := db.ttl[key]; ok {\n\t\t\tdb.ttl[key] = value - duration\n\t\t\tdb.checkTTL(key)\n\t\t}\n\n", "\tfor key, value := range db.ttl {\n\t\tdb.ttl[key] = value - duration\n\t\tdb.checkTTL(key)\n\t}\n\tfor key := range db.hashTTLs {\n"},
	// Each call of a script would have two buffers of 4 KB.
	{"lua.go", "\t\t\twr := bufio.NewWriter(buf)\n", "\t\t\twr := bufio.NewWriterSize(buf, 256)\n"},
	{"lua.go", "server.ParseReply(bufio.NewReader(buf))", "server.ParseReply(bufio.NewReaderSize(buf, 256))"},
}

// writeRedis makes a copy of the embedded Redis with its changes, and a go.mod that has it
// in place of the module: an overlay may not replace files of a module.
func writeRedis(dir string) error {
	where, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", embedded).Output()
	if err != nil {
		return fmt.Errorf("go list -m %s: %w", embedded, err)
	}
	from, to := strings.TrimSpace(string(where)), filepath.Join(dir, "miniredis")
	texts, err := changed(from, ofRedis)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	for name, text := range texts {
		if err := os.Remove(filepath.Join(to, name)); err != nil { // modules are read-only
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if name == "go.mod" {
			text = append(bytes.TrimSpace(text), "\n\nreplace "+embedded+" => "+to+"\n"...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
