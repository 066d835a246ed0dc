package packs_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollgate/rediskv/packs"
)

func TestRefusedRows(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("i", 128)
	huge := fmt.Sprintf(`{"id":"b","text":"%s"}`, strings.Repeat("x", 16<<20-len(`{"id":"b","text":""}`)))
	const begins, identifier, line, order, bytes16M = "begins with", "printable", "one line", "before", "at most 16777215"
	for _, c := range []struct{ name, id, text, says string }{
		{"empty", "b", "", begins},
		{"empty identifier", "", `{"id":"","n":1}`, identifier},
		{"newline", "b", "{\"id\":\"b\",\n\"n\":1}", line},
		{"newline at its end", "b", "{\"id\":\"b\"}\n", begins},
		{"carriage return", "b", "{\"id\":\"b\",\r\"n\":1}", line},
		{"long identifier", long + "i", `{"id":"` + long + `i"}`, identifier},
		{"other identifier", "b", `{"id":"c"}`, begins},
		{"longer identifier", "b", `{"id":"bc"}`, begins},
		{"shorter identifier", "bc", `{"id":"b"}`, begins},
		{"identifier is no string", "5", `{"id":5}`, begins},
		{"identifier is not first", "b", `{"n":1,"id":"b"}`, begins},
		{"space", "b", `{ "id":"b"}`, begins},
		{"no comma", "b", `{"id":"b"x}`, begins},
		{"no brace", "b", `{"id":"b","n":1`, begins},
		{"nothing after", "b", `{"id":"b"`, begins},
		{"backslash", `b\\`, `{"id":"b\\"}`, identifier},
		{"quote", `b"`, `{"id":"b""}`, identifier},
		{"quote and comma", `b",`, `{"id":"b","n":1}`, identifier},
		{"space in identifier", "b b", `{"id":"b b"}`, identifier},
		{"control character", "b\x01", "{\"id\":\"b\x01\"}", identifier},
		{"no ASCII", "bé", `{"id":"bé"}`, identifier},
		{"the same", "a", `{"id":"a"}`, order},
		{"before", "A", `{"id":"A"}`, order},
		{"too large", "b", huge, bytes16M},
	} {
		w := packs.NewWriter(&bytes.Buffer{}, "payments", 0)
		if err := w.Add("a", []byte(`{"id":"a"}`)); err != nil {
			t.Fatal(err)
		}
		err := w.Add(c.id, []byte(c.text))
		if err == nil || len(err.Error()) > 300 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the error is %v", c.name, err)
		}
		if _, closed := w.Close(); closed != err {
			t.Errorf("%s: the pack is closed with %v, and not with %v", c.name, closed, err)
		}
	}
	file, _ := write(t, []row{smallest("a"), smallest(long), {"j", []byte(strings.Replace(huge, "b", "j", 1)[:16<<20-3] + `"}`)}})
	if all := allOf(t, open(t, file)); len(all) != 3 || len(all[2].text) != 16<<20-1 {
		t.Error("what is as large as may be does not come back")
	}
}

func TestRefusedKinds(t *testing.T) {
	t.Parallel()
	for kind, partition := range map[string]int{"": 0, "Payments": 0, "a-b": 0, strings.Repeat("k", 129): 0, "payments": -1} {
		w := packs.NewWriter(&bytes.Buffer{}, kind, partition)
		if w.Add("a", []byte(`{"id":"a"}`)) == nil {
			t.Errorf("a row can be added to a pack of %q, partition %d", kind, partition)
		}
	}
}

type failing struct{ after int }

var errFull = errors.New("no space left")

func (f *failing) Write(b []byte) (int, error) {
	if f.after -= len(b); f.after < 0 {
		f.after = 1 << 30 // whoever goes on after that writes the rest
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	rows := randomRows(rand.New(rand.NewPCG(3, 3)), 100)
	whole, _ := write(t, rows)
	for after := 0; after < len(whole); after += len(whole)/20 + 1 {
		w := packs.NewWriter(&failing{after}, "payments", 7)
		for _, r := range rows {
			if err := w.Add(r.id, r.text); err != nil && !errors.Is(err, errFull) {
				t.Fatal(err)
			}
		}
		if s, err := w.Close(); !errors.Is(err, errFull) || s != (packs.Summary{}) {
			t.Errorf("with room for %d bytes the pack is closed: %v, %+v", after, err, s)
		}
	}
	w := packs.NewWriter(&bytes.Buffer{}, "payments", 7)
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err == nil || w.Add("a", []byte(`{"id":"a"}`)) == nil {
		t.Error("a closed pack takes rows, or can be closed again")
	}
}

// A frame is full with 64 KiB, and not before.
func TestFullFrames(t *testing.T) {
	t.Parallel()
	for more, want := range map[int]int{-1: 1, 0: 1, 1: 2} {
		text := strings.Repeat("x", 64<<10-3*len(`{"id":"a","text":""}`+"\n")-10_000+more)
		file, _ := write(t, []row{
			{"a", []byte(`{"id":"a","text":"` + text + `"}`)},
			{"b", []byte(`{"id":"b","text":"` + text[:5_000] + `"}`)},
			{"c", []byte(`{"id":"c","text":"` + text[:5_000] + `"}`)},
		})
		if x := open(t, file).Index(); len(x.Frames) != want {
			t.Errorf("%d bytes more: %d frames", more, len(x.Frames))
		}
	}
}

func TestSameRowsMakeTheSameFile(t *testing.T) {
	t.Parallel()
	rows := randomRows(rand.New(rand.NewPCG(5, 5)), 200)
	first, s := write(t, rows)
	for seed := range uint64(5) {
		write(t, randomRows(rand.New(rand.NewPCG(seed, 9)), 50)) // the encoder has seen other rows
		again, other := write(t, rows)
		if !bytes.Equal(first, again) || s != other {
			t.Fatal("the same rows make another file")
		}
	}
}

// goldenRows do not change: testdata/first.pack has them.
func goldenRows() (rows []row) {
	for n := range 300 {
		id := fmt.Sprintf("pay_%06d", n*n)
		text := fmt.Sprintf(`{"id":"%s","amount":%d,"currency":"EUR","payee":"shop-%d.example","digest":"%x"}`, id, n*7919%100_000, n%17, n*n*n*31)
		if n == 150 {
			text = fmt.Sprintf(`{"id":"%s","text":"%s"}`, id, strings.Repeat("0123456789", 7_000))
		}
		rows = append(rows, row{id, []byte(text)})
	}
	return rows
}

var update = flag.Bool("update", false, "write testdata/first.pack")

// The format does not change unnoticed. Files of the past can be read for ever: if only
// the second half fails, a new zstd encoder makes other frames of the same rows. Then change
// made, and leave the file alone.
func TestGolden(t *testing.T) {
	t.Parallel()
	const (
		stored = "5ae7e54e7c4f5c0c69da9d0343bca3453d0c968fd150fa4eb73237b570ca759d"
		made   = "afa12436525849fd725858194700a5b194801695b7db4b343c8e2bba1d41ab7e"
	)
	rows := goldenRows()
	file, s := write(t, rows)
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile("testdata/first.pack", file, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("testdata/first.pack")
	if err != nil {
		t.Fatal(err)
	}
	p, err := packs.Verify(t.Context(), &memory{data: golden}, int64(len(golden)), stored)
	if err != nil {
		t.Fatal(err)
	}
	if !sameRows(allOf(t, p), rows) {
		t.Error("the first pack has other rows")
	}
	if s.SHA256 != made {
		t.Errorf("the digest of the rows' pack is %s, and was %s", s.SHA256, made)
	}
}

// saved is a pack in a file, under its name.
func saved(t *testing.T, rows []row) string {
	t.Helper()
	file, s := write(t, rows)
	name := filepath.Join(t.TempDir(), packs.FileName(s.SHA256))
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestZstdPrintsTheRows(t *testing.T) {
	t.Parallel()
	zstd, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("there is no zstd: apt-get install zstd")
	}
	for _, n := range []int{0, 1, 500} {
		rows := randomRows(rand.New(rand.NewPCG(7, uint64(n))), n)
		var said bytes.Buffer
		c := exec.CommandContext(t.Context(), zstd, "-dc", saved(t, rows))
		c.Stderr = &said
		out, err := c.Output()
		if err != nil || said.Len() > 0 || !bytes.Equal(out, lines(rows)) {
			t.Errorf("zstd prints %d bytes of %d rows: %v, %s", len(out), n, err, said.Bytes())
		}
	}
}

func TestPythonReadsThePack(t *testing.T) {
	t.Parallel()
	python := pythonWithZstandard(t)
	run := func(args ...string) (string, string, error) {
		var out, said bytes.Buffer
		c := exec.CommandContext(t.Context(), python, append([]string{"../../scripts/packs/read_pack.py"}, args...)...)
		c.Stdout, c.Stderr = &out, &said
		err := c.Run()
		return out.String(), said.String(), err
	}
	for _, n := range []int{0, 1, 300} {
		rows := randomRows(rand.New(rand.NewPCG(8, uint64(n))), n)
		name := saved(t, rows)
		if out, said, err := run(name); err != nil || out != string(lines(rows)) {
			t.Fatalf("it prints %d bytes of %d rows: %v, %s", len(out), n, err, said)
		}
		for i := 0; i < n; i += 1 + n/4 {
			if out, said, err := run(name, rows[i].id); err != nil || out != string(rows[i].text)+"\n" {
				t.Errorf("it prints %.80q of %s: %v, %s", out, rows[i].id, err, said)
			}
		}
		if out, said, err := run(name, "zzz"); err == nil || out != "" || !strings.Contains(said, "no row") {
			t.Errorf("it prints %q of a row that is not there: %v, %s", out, err, said)
		}
	}
	rows := []row{smallest("a"), smallest("b")}
	name := saved(t, rows)
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := range file {
		if at%7 != 0 && at < len(file)-56 { // each run takes 60 ms
			continue
		}
		torn := bytes.Clone(file)
		torn[at] ^= 1 << (at % 8)
		if err := os.WriteFile(name, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, said, err := run(name); err == nil || out != "" || !strings.HasPrefix(said, "the pack is damaged") {
			t.Errorf("byte %d is another, and it prints %q: %v, %s", at, out, err, said)
		}
	}
}

func pythonWithZstandard(t *testing.T) string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import zstandard").Run() == nil {
			return name
		}
	}
	t.Skip("no Python has zstandard: apt-get install python3-zstandard")
	return ""
}

func TestFileName(t *testing.T) {
	t.Parallel()
	_, s := write(t, nil)
	if b, err := hex.DecodeString(s.SHA256); err != nil || len(b) != 32 || packs.FileName(s.SHA256) != s.SHA256+".pack" {
		t.Errorf("the name is %s", packs.FileName(s.SHA256))
	}
}
