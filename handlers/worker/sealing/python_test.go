package sealing_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/audit"
)

// A program in another language, which shares nothing with ours, accepts the proofs, at
// sizes around the edges of tiles, and nothing that was changed in them.
func TestPythonVerifiesProofs(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.serve()
	for _, more := range []int{1, 255} {
		r.write(more)
		r.seal()
		rows, _, err := r.AuditLeaves(t.Context(), r.Caller, "", "", 1000)
		must(t, err)
		for _, index := range []int{0, len(rows) / 2, len(rows) - 1} {
			p, err := audit.Prove(t.Context(), r.Store, r.Caller, idIn(*rows[index].Entry))
			must(t, err)
			if out, err := python(t, p); err != nil || !strings.HasPrefix(out, "ok: leaf") {
				t.Fatalf("leaf %d of %d: %v, %s", index, len(rows), err, out)
			}
			if out, err := python(t, p, *p.Key); err != nil {
				t.Errorf("with its key: %v, %s", err, out)
			}
		}
	}
	rows, _, err := r.AuditLeaves(t.Context(), r.Caller, "", "", 1000)
	must(t, err)
	proof := func() audit.Proof {
		p, err := audit.Prove(t.Context(), r.Store, r.Caller, idIn(*rows[100].Entry))
		must(t, err)
		return p
	}
	for what, change := range map[string]func(p *audit.Proof){
		"another entry":   func(p *audit.Proof) { p.Entry = strings.Replace(p.Entry, "any", "all", 1) },
		"another place":   func(p *audit.Proof) { *p.Index++ },
		"a hash less":     func(p *audit.Proof) { p.Hashes = p.Hashes[1:] },
		"another size":    func(p *audit.Proof) { *p.Note = strings.Replace(*p.Note, "kept-from 0", "kept-from 1", 1) },
		"two swapped":     func(p *audit.Proof) { p.Hashes[0], p.Hashes[1] = p.Hashes[1], p.Hashes[0] },
		"another's key":   func(p *audit.Proof) { *p.Key = "other" + *p.Key },
		"no signature":    func(p *audit.Proof) { *p.Note, _, _ = strings.Cut(*p.Note, "—") },
		"a place outside": func(p *audit.Proof) { *p.Index = -1 },
	} {
		p := proof()
		if change(&p); p.Entry == "" {
			t.Fatal(what)
		}
		if out, err := python(t, p); err == nil {
			t.Errorf("%s is accepted: %s", what, out)
		}
	}
}

func python(t *testing.T, p audit.Proof, args ...string) (string, error) {
	t.Helper()
	text, err := json.Marshal(p)
	must(t, err)
	file := filepath.Join(t.TempDir(), "proof.json")
	must(t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", append([]string{"../../../scripts/audit_verify.py", file}, args...)...).CombinedOutput()
	return string(out), err
}
