package packs_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollgate/rediskv/packs"
)

// memory is a source of bytes. It counts how often it is read, and how much.
type memory struct {
	data  []byte
	reads int
	bytes int
}

func (m *memory) ReadAt(ctx context.Context, p []byte, off int64) error {
	m.reads++
	m.bytes += len(p)
	if off < 0 || off > int64(len(m.data)) || copy(p, m.data[off:]) < len(p) {
		return io.ErrUnexpectedEOF
	}
	return ctx.Err()
}

func open(tb testing.TB, data []byte) *packs.Pack {
	tb.Helper()
	p, err := packs.Open(tb.Context(), &memory{data: data}, int64(len(data)))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

type row struct {
	id   string
	text []byte
}

// write makes a pack of rows.
func write(tb testing.TB, rows []row) ([]byte, packs.Summary) {
	tb.Helper()
	var file bytes.Buffer
	w := packs.NewWriter(&file, "payments", 7)
	for _, r := range rows {
		if err := w.Add(r.id, r.text); err != nil {
			tb.Fatal(err)
		}
	}
	s, err := w.Close()
	if err != nil {
		tb.Fatal(err)
	}
	return file.Bytes(), s
}

// lines are rows as zstd prints them.
func lines(rows []row) []byte {
	var all []byte
	for _, r := range rows {
		all = append(append(all, r.text...), '\n')
	}
	return all
}

// smallest makes a row with nothing but its identifier.
func smallest(id string) row { return row{id, []byte(`{"id":"` + id + `"}`)} }

// randomRows makes rows whose sizes go from the smallest up to a few that fill frames.
func randomRows(r *rand.Rand, n int) []row {
	ids := map[string]bool{}
	for len(ids) < n {
		const letters = "!#$09AZ[^_az{|}~,:"
		b := make([]byte, 1+r.IntN(64))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		ids[string(b)] = true
	}
	var rows []row
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		made := smallest(id)
		if r.IntN(10) > 0 {
			random := make([]byte, r.IntN(1<<r.IntN(17)))
			for i := range random {
				random[i] = byte(r.Uint32())
			}
			text := hex.EncodeToString(random[:r.IntN(len(random)+1)]) + strings.Repeat(`é\n"`[:r.IntN(2)*4], r.IntN(1000))
			made.text = fmt.Appendf(nil, `{"id":"%s","text":%q}`, id, text[:min(len(text), 100_000)])
		}
		rows = append(rows, made)
	}
	return rows
}

// allOf reads all rows of a pack, each from its frame and by its identifier.
func allOf(tb testing.TB, p *packs.Pack) (all []row) {
	tb.Helper()
	for n := range p.Index().Frames {
		f, err := p.Frame(tb.Context(), n)
		if err != nil {
			tb.Fatal(err)
		}
		for id, text := range f.Rows() {
			all = append(all, row{id, text})
			if in, ok := p.FrameOf(id); !ok || in != n {
				tb.Fatalf("%s is in frame %d (%v), and FrameOf says %d", id, n, ok, in)
			}
			if found, ok := f.Row(id); !ok || !bytes.Equal(found, text) {
				tb.Fatalf("Row(%s) is %.80q (%v), and Rows says %.80q", id, found, ok, text)
			}
		}
	}
	return all
}

func sameRows(a, b []row) bool {
	return slices.EqualFunc(a, b, func(a, b row) bool { return a.id == b.id && bytes.Equal(a.text, b.text) })
}

func TestRowsComeBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		rows := randomRows(r, []int{0, 1, 2, 30, 300}[seed%5])
		file, s := write(t, rows)
		p, err := packs.Verify(t.Context(), &memory{data: file}, int64(len(file)), s.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		if all := allOf(t, p); !sameRows(all, rows) {
			t.Fatalf("seed %d: %d rows came back of %d, or others", seed, len(all), len(rows))
		}
		want := packs.Summary{SHA256: s.SHA256, Size: int64(len(file)), Rows: int64(len(rows)), Bytes: int64(len(lines(rows)))}
		if len(rows) > 0 {
			want.First, want.Last = rows[0].id, rows[len(rows)-1].id
		}
		x := p.Index()
		if s != want || x.Rows != s.Rows || x.First != s.First || x.Last != s.Last || x.Kind != "payments" || x.Partition != 7 || x.Format != "tollgate-pack/1" {
			t.Errorf("the summary is %+v, and should be %+v; the index says %+v", s, want, x)
		}
		for n, f := range x.Frames {
			if f.Bytes > 64<<10 && f.Rows > 1 {
				t.Errorf("frame %d has %d bytes in %d rows", n, f.Bytes, f.Rows)
			}
			if n > 0 && x.Frames[n-1].Bytes+int64(len(rowOf(rows, f.First).text))+1 <= 64<<10 {
				t.Errorf("frame %d has room for the row behind it", n-1)
			}
		}
	}
}

func rowOf(rows []row, id string) row {
	return rows[slices.IndexFunc(rows, func(r row) bool { return r.id == id })]
}

// Identifiers that are not there are not found: before the first, behind the last, between
// frames and within them.
func TestMissingRows(t *testing.T) {
	t.Parallel()
	var rows []row
	for n := range 400 {
		rows = append(rows, row{fmt.Sprintf("id_%04d", 2*n), fmt.Appendf(nil, `{"id":"id_%04d","text":"%s"}`, 2*n, strings.Repeat("x", 1000))})
	}
	file, _ := write(t, rows)
	p := open(t, file)
	all := p.Index().Frames
	if len(all) < 5 {
		t.Fatalf("there are only %d frames", len(all))
	}
	for _, id := range []string{"", "id_", "id_-001", "id_0799", "id_9", "je"} {
		if n, ok := p.FrameOf(id); ok || n != 0 && n != len(all) {
			t.Errorf("FrameOf(%q) is %d, %v", id, n, ok)
		}
	}
	for n := range 399 {
		id := fmt.Sprintf("id_%04d", 2*n+1)
		in, ok := p.FrameOf(id)
		if !ok {
			if id <= all[in-1].Last || id >= all[in].First {
				t.Errorf("FrameOf(%s) says it is before frame %d", id, in)
			}
			continue
		}
		f, err := p.Frame(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := f.Row(id); ok {
			t.Errorf("Row(%s) is %.40s", id, text)
		}
	}
	for _, n := range []int{-1, len(all)} {
		if _, err := p.Frame(t.Context(), n); err == nil {
			t.Errorf("frame %d can be read", n)
		}
	}
}

// A reader that stops gets no more rows, and what it appends to a row changes no other.
func TestRowsStop(t *testing.T) {
	t.Parallel()
	file, _ := write(t, []row{smallest("a"), smallest("b"), smallest("c")})
	f, err := open(t, file).Frame(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, text := range f.Rows() {
		_ = append(text, "!!!!!!!!"...)
		if seen++; seen == 2 {
			break
		}
	}
	if text, _ := f.Row("b"); seen != 2 || string(text) != `{"id":"b"}` {
		t.Errorf("%d rows were seen, and one is %s", seen, text)
	}
	if f.Bytes() > 1000 {
		t.Errorf("a small frame takes %d bytes", f.Bytes())
	}
	var rows []row
	for n := range 5_000 {
		rows = append(rows, smallest(strconv.Itoa(10_000+n)))
	}
	file, _ = write(t, rows)
	if f, err = open(t, file).Frame(t.Context(), 0); err != nil || f.Bytes() < 4_000*(len(rows[0].text)+1+4) {
		t.Errorf("a frame takes %d bytes: %v", f.Bytes(), err)
	}
}

// An index of up to 256 KiB takes one read, a larger one two. A frame takes one.
func TestReads(t *testing.T) {
	t.Parallel()
	for frames, reads := range map[int]int{1: 1, 2_000: 1, 5_000: 2} {
		r := rand.New(rand.NewPCG(1, uint64(frames)))
		var rows []row
		for n := range frames {
			id := fmt.Sprintf("%08d%016x%016x", n, r.Uint64(), r.Uint64())
			rows = append(rows, row{id, fmt.Appendf(nil, `{"id":"%s","text":"%s"}`, id, strings.Repeat("x", 64<<10))})
		}
		file, _ := write(t, rows)
		src := &memory{data: file}
		p, err := packs.Open(t.Context(), src, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Index().Frames) != frames || src.reads != reads || src.bytes > len(file) {
			t.Errorf("%d frames: %d reads of %d bytes in all; %d expected", len(p.Index().Frames), src.reads, src.bytes, reads)
		}
		src.reads = 0
		if _, err := p.Frame(t.Context(), frames-1); err != nil || src.reads != 1 {
			t.Errorf("a frame took %d reads: %v", src.reads, err)
		}
	}
}
