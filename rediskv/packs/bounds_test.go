package packs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"runtime/metrics"
	"strings"
	"testing"

	"tollgate/rediskv/frames"
	"tollgate/rediskv/packs"
)

// allocated is how many bytes this process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A small file takes little memory, whatever it says.
func TestBombs(t *testing.T) { // not in parallel: it measures
	whole := func(packed []byte) []byte { return sealedAs(nil, packed, uint64(len(packed))) }
	head := `{"format":"tollgate-pack/1","kind":"payments","frames":[`
	for name, file := range map[string][]byte{
		"spaces":          sealed(nil, []byte(head+strings.Repeat(" ", 100<<20)+"]}")),
		"frames":          sealed(nil, []byte(head+strings.Repeat("{},", 300)+"{}]}")),
		"many frames":     sealed(make([]byte, 100<<10), []byte(head+strings.Repeat("{},", 1_700_000)+"{}]}")),
		"not JSON":        sealed(nil, []byte("frames")),
		"nothing":         sealed(nil, nil),
		"deep":            sealed(nil, []byte(`{"frames":`+strings.Repeat("[", 4000))),
		"null":            sealed(nil, []byte("null")),
		"more behind":     sealed(nil, []byte(head+"]}{}")),
		"names twice":     sealed(nil, []byte(`{"rows":0,"rows":0,`+head[1:]+"]}")),
		"overflow":        sealed(nil, []byte(`{"rows":9223372036854775808,`+head[1:]+"]}")),
		"index size":      sealedAs(nil, frames.Dense([]byte(head+"]}"), nil), 1<<64-1),
		"index size + 1":  sealedAs(nil, frames.Dense([]byte(head+"]}"), nil), uint64(len(frames.Dense([]byte(head+"]}"), nil))+1)),
		"no size":         whole([]byte("\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00\x99\xe9\xd8\x51")),
		"huge size":       whole([]byte("\x28\xb5\x2f\xfd\xe4\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x99\xe9\xd8\x51")),
		"two frames":      whole(append(frames.Dense([]byte(head+"]}"), nil), frames.Dense(make([]byte, 64<<20), nil)...)),
		"skippable index": whole([]byte("\x5e\x2a\x4d\x18\x00\x00\x00\x00")),
	} {
		before := allocated()
		_, err := packs.Open(t.Context(), &memory{data: file}, int64(len(file)))
		if !damages(err) {
			t.Errorf("%s: Open says %v", name, err)
		}
		if took := allocated() - before; took > 8<<20+20*uint64(len(file)) { // decoders are made, too
			t.Errorf("%s: %d bytes of a file take %d of memory", name, len(file), took)
		}
	}
}

// A frame takes no more memory than its rows may, whatever it unpacks to; nor does it have
// more bytes in the file.
func TestFrameBombs(t *testing.T) { // not in parallel: it measures
	one := func(frame []byte, rows, bytes int64) []byte {
		sum := sha256.Sum256(frame)
		e := packs.Entry{Size: int64(len(frame)), Bytes: bytes, Rows: rows, First: "a", Last: "b", SHA256: hex.EncodeToString(sum[:])}
		text, err := json.Marshal(packs.Index{Format: "tollgate-pack/1", Kind: "payments", Rows: rows, First: "a", Last: "b", Frames: []packs.Entry{e}})
		if err != nil {
			t.Fatal(err)
		}
		return sealed(frame, text)
	}
	const rows = `{"id":"a"}` + "\n" + `{"id":"b"}` + "\n"
	bomb := frames.Dense(make([]byte, 64<<20), nil)
	for name, frame := range map[string][]byte{"one": bomb, "behind": append(frames.Dense([]byte(rows), nil), bomb...)} {
		p := open(t, one(frame, 2, max(int64(len(rows)), int64(len(frame))-1000)))
		before := allocated()
		if _, err := p.Frame(t.Context(), 0); !damages(err) {
			t.Errorf("%s: Frame says %v", name, err)
		}
		if took := allocated() - before; took > 4<<20 {
			t.Errorf("%s: the frame takes %d bytes of memory", name, took)
		}
	}
	large := one(make([]byte, 1<<20), 2, int64(len(rows)))
	if _, err := packs.Open(t.Context(), &memory{data: large}, int64(len(large))); !damages(err) {
		t.Errorf("1 MiB for %d bytes of rows: Open says %v", len(rows), err)
	}
}

// The index can end anywhere in what is read first. zstd passes over what fills it up.
func TestIndexAsLargeAsOneRead(t *testing.T) {
	t.Parallel()
	file, _ := write(t, someRows())
	x := open(t, file).Index()
	end := x.Frames[3].Offset + x.Frames[3].Size
	text, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	packed := frames.Dense(text, nil)
	for more := -3; more <= 3; more++ {
		fill := 256<<10 - 56 - len(packed) - 8 + more
		filled := binary.LittleEndian.AppendUint32(bytes.Clone(packed), 0x184D2A50)
		filled = binary.LittleEndian.AppendUint32(filled, uint32(fill))
		filled = append(filled, make([]byte, fill)...)
		large := sealedAs(file[:end], filled, uint64(len(filled)))
		src := &memory{data: large}
		p, err := packs.Open(t.Context(), src, int64(len(large)))
		if err != nil || src.reads != 1+min(max(more, 0), 1) {
			t.Errorf("%d bytes more: %d reads, %v", more, src.reads, err)
			continue
		}
		if len(allOf(t, p)) != 8 {
			t.Errorf("%d bytes more: there are other rows", more)
		}
	}
}

// FuzzOpen reads anything as a pack, and, where index is not empty, anything as the frames
// and the index of one whose digests are right.
func FuzzOpen(f *testing.F) {
	file, _ := write(f, someRows())
	x := open(f, file).Index()
	end := x.Frames[len(x.Frames)-1].Offset + x.Frames[len(x.Frames)-1].Size
	index, err := json.Marshal(x)
	if err != nil {
		f.Fatal(err)
	}
	few, _ := write(f, randomRows(rand.New(rand.NewPCG(1, 1)), 5))
	none, _ := write(f, nil)
	for _, file := range [][]byte{file, few, none, file[:100], file[100:], nil} {
		f.Add(file, []byte(nil))
	}
	f.Add(file[:end], index)
	f.Add(file[:end], bytes.Replace(index, []byte(`"rows":2`), []byte(`"rows":-2`), 1))
	f.Add(few[:len(few)-56], []byte(`{"format":"tollgate-pack/1","kind":"payments","frames":[]}`))
	f.Fuzz(func(t *testing.T, file, index []byte) {
		if len(index) > 0 {
			file = sealed(file, index)
		}
		before := allocated()
		p, err := packs.Open(t.Context(), &memory{data: file}, int64(len(file)))
		if took := allocated() - before; took > 16<<20+200*uint64(len(file)) {
			t.Fatalf("%d bytes take %d of memory", len(file), took)
		}
		if err == nil {
			readAll(t, p)
		} else if p != nil || !damages(err) {
			t.Fatalf("Open says %v", err)
		}
	})
}

// readAll reads all frames of a pack that nobody vouches for.
func readAll(t *testing.T, p *packs.Pack) {
	rows := int64(0)
	for n, e := range p.Index().Frames {
		before := allocated()
		frame, err := p.Frame(t.Context(), n)
		if took := allocated() - before; took > 32<<20 {
			t.Fatalf("frame %d of %d bytes takes %d of memory", n, e.Size, took)
		}
		if err != nil {
			if !damages(err) {
				t.Fatalf("Frame says %v", err)
			}
			continue
		}
		for id, text := range frame.Rows() {
			rows++
			if found, ok := frame.Row(id); !ok || !bytes.Equal(found, text) {
				t.Fatalf("%s is not found", id)
			}
			if in, ok := p.FrameOf(id); !ok || in != n {
				t.Fatalf("%s is in frame %d, and not in %d", id, n, in)
			}
		}
	}
	if rows > p.Index().Rows {
		t.Fatalf("%d rows of %d", rows, p.Index().Rows)
	}
}
