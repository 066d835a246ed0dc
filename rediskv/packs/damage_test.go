package packs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tollgate/rediskv/frames"
	"tollgate/rediskv/packs"
)

// someRows fill a few frames: little ones, so that all bytes of a pack can be tried.
func someRows() []row {
	var rows []row
	for n := range 8 {
		id := fmt.Sprintf("id_%d", n)
		rows = append(rows, row{id, fmt.Appendf(nil, `{"id":"%s","text":"%s"}`, id, strings.Repeat(id, 8_000))})
	}
	return rows
}

// damages says whether an error is only of damage.
func damages(err error) bool {
	var d *packs.DamagedError
	return errors.As(err, &d)
}

// neverOthers fails if a file has rows that were not written. What it has lost is an error.
func neverOthers(t *testing.T, what string, file []byte, rows []row) {
	t.Helper()
	src := &memory{data: file}
	p, err := packs.Open(t.Context(), src, int64(len(file)))
	if err != nil {
		if !damages(err) {
			t.Errorf("%s: Open says %v", what, err)
		}
		return
	}
	var all []row
	whole := true
	for n := range p.Index().Frames {
		f, err := p.Frame(t.Context(), n)
		if err != nil {
			if whole = false; !damages(err) {
				t.Errorf("%s: Frame(%d) says %v", what, n, err)
			}
			continue
		}
		for id, text := range f.Rows() {
			if !bytes.Equal(rowOf(rows, id).text, text) {
				t.Errorf("%s: %s is %.40q", what, id, text)
			}
			all = append(all, row{id, text})
		}
	}
	if whole && !sameRows(all, rows) {
		t.Errorf("%s: there are %d rows of %d, and no error", what, len(all), len(rows))
	}
}

func TestEveryBit(t *testing.T) {
	t.Parallel()
	rows := someRows()
	file, s := write(t, rows)
	if n := len(open(t, file).Index().Frames); n != 4 || len(file) > 4_000 {
		t.Fatalf("%d frames, %d bytes", n, len(file))
	}
	last := open(t, file).Index().Frames[3]
	r := rand.New(rand.NewPCG(11, 11))
	for at := range file {
		for _, bit := range []int{at % 8, r.IntN(8)} {
			torn := bytes.Clone(file)
			torn[at] ^= 1 << bit
			what := fmt.Sprintf("bit %d of byte %d", bit, at)
			if _, err := packs.Verify(t.Context(), &memory{data: torn}, s.Size, s.SHA256); !damages(err) {
				t.Errorf("%s: Verify says %v", what, err)
			}
			if _, err := packs.Open(t.Context(), &memory{data: torn}, s.Size); damages(err) != (int64(at) >= last.Offset+last.Size) {
				t.Errorf("%s: Open says %v", what, err)
			}
			neverOthers(t, what, torn, rows)
		}
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	rows := someRows()
	file, s := write(t, rows)
	for size := range file {
		what := fmt.Sprintf("%d bytes", size)
		for _, torn := range [][]byte{file[:size], file[len(file)-size:]} {
			if _, err := packs.Verify(t.Context(), &memory{data: torn}, int64(size), s.SHA256); !damages(err) {
				t.Errorf("%s: Verify says %v", what, err)
			}
			if _, err := packs.Open(t.Context(), &memory{data: torn}, int64(size)); !damages(err) {
				t.Errorf("%s: Open says %v", what, err)
			}
		}
	}
	for _, size := range []int64{-1 << 63, -1, s.Size - 1} {
		if _, err := packs.Open(t.Context(), &memory{data: file}, size); !damages(err) {
			t.Errorf("a size of %d: Open says %v", size, err)
		}
	}
	// What cannot be read is not damaged.
	for _, size := range []int64{s.Size + 1, 1 << 40, 1<<63 - 1} {
		if _, err := packs.Open(t.Context(), &memory{data: file}, size); !errors.Is(err, io.ErrUnexpectedEOF) || damages(err) {
			t.Errorf("a size of %d: Open says %v", size, err)
		}
	}
	p := open(t, file)
	clear(file)
	if _, err := p.Frame(t.Context(), 0); !damages(err) {
		t.Errorf("a frame of zeros: %v", err)
	}
}

// Verify names each frame that is damaged with its identifiers, and the others can be used.
func TestVerifyNamesFrames(t *testing.T) {
	t.Parallel()
	rows := someRows()
	file, s := write(t, rows)
	x := open(t, file).Index()
	last := len(x.Frames) - 1
	file[x.Frames[1].Offset+20] ^= 1
	file[x.Frames[last].Offset+20] ^= 1
	src := &memory{data: file}
	p, err := packs.Verify(t.Context(), src, s.Size, s.SHA256)
	if src.bytes > 2*len(file) {
		t.Errorf("%d bytes were read of %d", src.bytes, len(file))
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || p == nil {
		t.Fatalf("Verify says %v", err)
	}
	var found []packs.DamagedError
	for _, err := range joined.Unwrap() {
		var d *packs.DamagedError
		if errors.As(err, &d) {
			found = append(found, packs.DamagedError{Frame: d.Frame, From: d.From, Until: d.Until})
		}
	}
	want := []packs.DamagedError{{Frame: 1, From: x.Frames[1].First, Until: x.Frames[2].First}, {Frame: last, From: x.Frames[last].First}, {Frame: -1}}
	if !slices.Equal(found, want) {
		t.Errorf("found %+v, want %+v", found, want)
	}
	for _, says := range []string{"frame 1 (identifiers from " + x.Frames[1].First + " until " + x.Frames[2].First + ")", "from " + x.Frames[last].First + " on", s.SHA256} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	for n := range x.Frames {
		if _, err := p.Frame(t.Context(), n); (err != nil) != (n == 1 || n == last) {
			t.Errorf("frame %d: %v", n, err)
		}
	}
	// Of a file without an index at least the digest is compared.
	file[len(file)-1] ^= 1
	p, err = packs.Verify(t.Context(), &memory{data: file}, s.Size, s.SHA256)
	if joined, ok := err.(interface{ Unwrap() []error }); p != nil || !ok || len(joined.Unwrap()) != 2 || !strings.Contains(err.Error(), s.SHA256) {
		t.Errorf("without its last byte: %v", err)
	}
	sum := sha256.Sum256(file)
	if _, err = packs.Verify(t.Context(), &memory{data: file}, s.Size, hex.EncodeToString(sum[:])); !damages(err) {
		t.Errorf("a file that is no pack, with its digest: %v", err)
	}
	// Another pack under the name is whole, and still not the one.
	other, _ := write(t, rows[:3])
	if p, err := packs.Verify(t.Context(), &memory{data: other}, int64(len(other)), s.SHA256); p == nil || !damages(err) {
		t.Errorf("another pack: %v", err)
	}
}

// sealed is a file of frames and an index that says whatever it likes, with right digests.
func sealed(file, index []byte) []byte {
	packed := frames.Dense(index, nil)
	return sealedAs(file, packed, uint64(len(packed)))
}

func sealedAs(file, packed []byte, size uint64) []byte {
	sum := sha256.Sum256(packed)
	file = binary.LittleEndian.AppendUint32(bytes.Clone(file), 0x184D2A5E)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(packed)+48))
	file = append(append(file, packed...), sum[:]...)
	return append(binary.LittleEndian.AppendUint64(file, size), "tollpack"...)
}

// lies are what an index with a right digest can say.
var lies = map[string]func(*packs.Index){
	"format":           func(x *packs.Index) { x.Format = "tollgate-pack/2" },
	"kind":             func(x *packs.Index) { x.Kind = "" },
	"partition":        func(x *packs.Index) { x.Partition = -1 },
	"rows":             func(x *packs.Index) { x.Rows++ },
	"first":            func(x *packs.Index) { x.First = "id" },
	"last":             func(x *packs.Index) { x.Last = "id_9" },
	"no frames":        func(x *packs.Index) { *x = packs.Index{Format: x.Format, Kind: x.Kind} },
	"first frame gone": func(x *packs.Index) { x.Frames = x.Frames[1:]; x.First = x.Frames[0].First; x.Rows -= 2 },
	"last frame gone": func(x *packs.Index) {
		x.Rows -= x.Frames[len(x.Frames)-1].Rows
		x.Frames = x.Frames[:len(x.Frames)-1]
		x.Last = x.Frames[len(x.Frames)-1].Last
	},
	"frame twice":     func(x *packs.Index) { x.Frames = slices.Insert(x.Frames, 1, x.Frames[0]); x.Rows += x.Frames[0].Rows },
	"order":           func(x *packs.Index) { x.Frames[0], x.Frames[1] = x.Frames[1], x.Frames[0] },
	"gap":             func(x *packs.Index) { x.Frames[1].Offset++; x.Frames[1].Size-- },
	"overlap":         func(x *packs.Index) { x.Frames[0].Size++ },
	"negative offset": func(x *packs.Index) { x.Frames[0].Offset = -1 },
	"no size": func(x *packs.Index) {
		x.Frames[0].Size, x.Frames[1].Offset, x.Frames[1].Size = 0, 0, x.Frames[0].Size+x.Frames[1].Size
	},
	"negative size": func(x *packs.Index) {
		x.Frames[0].Size, x.Frames[1].Offset, x.Frames[1].Size = -5, -5, x.Frames[0].Size+x.Frames[1].Size+5
	},
	"size over the end": func(x *packs.Index) { x.Frames[len(x.Frames)-1].Size++ },
	"sizes that overflow": func(x *packs.Index) {
		x.Frames[0].Size, x.Frames[1].Offset, x.Frames[1].Size = 1<<63-1, 1<<63-1, -(1<<63-1)+x.Frames[1].Offset+x.Frames[1].Size
	},
	"no bytes":               func(x *packs.Index) { x.Frames[0].Bytes = 0 },
	"negative bytes":         func(x *packs.Index) { x.Frames[0].Bytes = -1 },
	"too many bytes":         func(x *packs.Index) { x.Frames[0].Bytes = 16<<20 + 1 },
	"bytes that overflow":    func(x *packs.Index) { x.Frames[0].Bytes = 1<<63 - 1 },
	"one byte more":          func(x *packs.Index) { x.Frames[0].Bytes++ },
	"one byte less":          func(x *packs.Index) { x.Frames[0].Bytes-- },
	"no rows":                func(x *packs.Index) { x.Rows -= x.Frames[0].Rows; x.Frames[0].Rows = 0 },
	"negative rows":          func(x *packs.Index) { x.Frames[0].Rows -= 9; x.Frames[1].Rows += 9 },
	"one row more":           func(x *packs.Index) { x.Frames[0].Rows++; x.Rows++ },
	"one row less":           func(x *packs.Index) { x.Frames[0].Rows--; x.Frames[0].Last = x.Frames[0].First; x.Rows-- },
	"more rows than bytes":   func(x *packs.Index) { x.Frames[0].Rows = 1 << 40; x.Rows += 1<<40 - 2 },
	"rows that overflow":     func(x *packs.Index) { x.Frames[0].Rows = 1<<63 - 1 },
	"other first of a frame": func(x *packs.Index) { x.Frames[1].First = "id_1z" },
	"other last of a frame":  func(x *packs.Index) { x.Frames[1].Last = "id_3z" },
	"first after last":       func(x *packs.Index) { x.Frames[1].First, x.Frames[1].Last = x.Frames[1].Last, x.Frames[1].First },
	"frames that overlap":    func(x *packs.Index) { x.Frames[1].First = x.Frames[0].Last },
	"identifier too long":    func(x *packs.Index) { x.Frames[0].First = strings.Repeat("a", 129); x.First = x.Frames[0].First },
	"identifier with space":  func(x *packs.Index) { x.Frames[0].First = "a b"; x.First = "a b" },
	"last is too long":       func(x *packs.Index) { x.Frames[0].Last = x.Frames[0].Last + strings.Repeat("a", 129) },
	"last with quote":        func(x *packs.Index) { x.Frames[0].Last += `"` },
	"empty identifier":       func(x *packs.Index) { x.Frames[0].First = ""; x.First = "" },
	"digest":                 func(x *packs.Index) { x.Frames[0].SHA256 = x.Frames[1].SHA256 },
	"upper-case digest":      func(x *packs.Index) { x.Frames[0].SHA256 = strings.ToUpper(x.Frames[0].SHA256) },
	"no digest":              func(x *packs.Index) { x.Frames[0].SHA256 = "" },
	"short digest":           func(x *packs.Index) { x.Frames[0].SHA256 = x.Frames[0].SHA256[:62] },
	"no hexadecimal digest":  func(x *packs.Index) { x.Frames[0].SHA256 = strings.Repeat("x", 64) },
	"short, no hexadecimal":  func(x *packs.Index) { x.Frames[0].SHA256 += "xx" },
}

// An index with a right digest is not believed: each of these is damaged before any row
// is given.
func TestLyingIndex(t *testing.T) {
	t.Parallel()
	file, _ := write(t, someRows())
	honest := open(t, file).Index()
	end := honest.Frames[len(honest.Frames)-1].Offset + honest.Frames[len(honest.Frames)-1].Size
	for name, lie := range lies {
		x := honest
		x.Frames = slices.Clone(honest.Frames)
		lie(&x)
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		lying := sealed(file[:end], text)
		sum := sha256.Sum256(lying)
		if _, err := packs.Verify(t.Context(), &memory{data: lying}, int64(len(lying)), hex.EncodeToString(sum[:])); !damages(err) {
			t.Errorf("%s: Verify says %v", name, err)
		}
		// These only a frame shows.
		if shown := []string{"one byte more", "one byte less", "one row more", "one row less", "other first of a frame", "other last of a frame", "digest"}; !slices.Contains(shown, name) {
			if _, err := packs.Open(t.Context(), &memory{data: lying}, int64(len(lying))); !damages(err) {
				t.Errorf("%s: Open says %v", name, err)
			}
		}
	}
}

// Frames whose digests are right, with rows that Add would have refused.
func TestLyingRows(t *testing.T) {
	t.Parallel()
	pack := func(text, first, last string, rows int) []byte {
		frame := frames.Dense([]byte(text), nil)
		sum := sha256.Sum256(frame)
		x := packs.Index{Format: "tollgate-pack/1", Kind: "payments", Rows: int64(rows), First: first, Last: last}
		x.Frames = []packs.Entry{{Size: int64(len(frame)), Bytes: int64(len(text)), Rows: x.Rows, First: first, Last: last, SHA256: hex.EncodeToString(sum[:])}}
		index, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return sealed(frame, index)
	}
	a, b, c := `{"id":"a"}`+"\n", `{"id":"b"}`+"\n", `{"id":"c"}`+"\n"
	if file := pack(a+b+c, "a", "c", 3); len(allOf(t, open(t, file))) != 3 {
		t.Error("the honest one has no rows")
	}
	for name, text := range map[string]string{
		"order":          b + a + c,
		"twice":          a + a + c,
		"order within":   a + c + b,
		"no end":         a + b + strings.TrimSpace(c) + " ",
		"no identifier":  a + `{"ID":"b"}` + "\n" + c,
		"empty row":      a + "\n" + b + c,
		"bad identifier": a + `{"id":"a b"}` + "\n" + c,
		"no object":      a + `["id","b"]` + "\n" + c,
		"fewer":          a + strings.Repeat(" ", len(b)) + c,
		"no newline":     a + strings.TrimSpace(b) + c + "\n",
		"more":           a + b + b[:7] + "bb\"}\n" + c,
		"other first":    strings.Replace(a, "a", "A", 1) + b + c,
		"other last":     a + b + strings.Replace(c, "c", "d", 1),
		"no brace":       a + `{"id":"b"]` + "\n" + c,
	} {
		p := open(t, pack(text, "a", "c", 3))
		if _, err := p.Frame(t.Context(), 0); !damages(err) {
			t.Errorf("%s: Frame says %v", name, err)
		}
	}
	p := open(t, pack(a+b+c+strings.Repeat("\n", 11), "a", "c", 4))
	if _, err := p.Frame(t.Context(), 0); !damages(err) {
		t.Errorf("empty rows at the end: Frame says %v", err)
	}
}
