package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

func TestChecksum(t *testing.T) {
	// The check value of CRC-64/REDIS.
	if got := checksum(0, []byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("%x", got)
	}
	if got := checksum(checksum(0, []byte("1234")), []byte("56789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("in two steps: %x", got)
	}
}

func TestUnpack(t *testing.T) {
	for _, c := range []struct{ packed, want string }{
		{"\x02abc", "abc"},
		{"\x00a\xe0\x00\x00", strings.Repeat("a", 10)},    // what is copied is what was just copied
		{"\x02abc\x20\x02", "abcabc"},                     // three bytes from three before
		{"\x00a\xe0\xff\x00", strings.Repeat("a", 1+264)}, // as long as it gets
	} {
		if got, err := unpack([]byte(c.packed), len(c.want)); err != nil || string(got) != c.want {
			t.Errorf("%q: %q %v", c.packed, got, err)
		}
		if _, err := unpack([]byte(c.packed), len(c.want)+1); err == nil {
			t.Errorf("%q has another length, and nobody says so", c.packed)
		}
	}
	for _, broken := range []string{"\x02ab", "\x20\x00", "\x00a\xe0", "\x00a\x20", "\x00a\x20\x01"} {
		if got, err := unpack([]byte(broken), 3); err == nil {
			t.Errorf("%q: %q", broken, got)
		}
	}
}

func TestListpack(t *testing.T) {
	long := strings.Repeat("x", 4096)
	entries := "\x05\x01" + "\x81a\x02" + "\xdf\xff\x02" + "\xf1\x00\x80\x03" + "\xf2\xff\xff\xff\x04" + "\xf3\x00\x00\x00\x80\x05" +
		"\xf4\x00\x00\x00\x00\x00\x00\x00\x80\x09" + "\xe0\x01b\x03" + "\xf0\x00\x10\x00\x00" + long + "\xa0\x05"
	want := []string{"5", "a", "-1", "-32768", "-1", "-2147483648", "-9223372036854775808", "b", long}
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(7+len(entries))), 0xff, 0xff) // how many is not said
	b = append(append(b, entries...), 0xff)
	p, err := newPack(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if got := p.next(); got != w {
			t.Errorf("%.20q, want %.20q", got, w)
		}
	}
	if !p.ended() || p.err != nil {
		t.Error(p.rest, p.err)
	}
	if p.next(); p.err == nil {
		t.Error("there is something behind the end")
	}
}

// file is a snapshot of some bytes.
func file(body string) []byte {
	b := []byte("REDIS0010" + body + "\xff")
	return binary.LittleEndian.AppendUint64(b, checksum(0, b))
}

func TestDamagedFiles(t *testing.T) {
	whole := file("\xfa\x01a\x01b\xfe\x00\xfb\x02\x01\xf4\x01\x02\x03\xfc\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01k\x01v\x00\x01l\xc1\xff\xff")
	var seen []*Value
	read := func(b []byte) error {
		seen = nil
		return Read(bytes.NewReader(b), int64(len(b)), func(v *Value) error { seen = append(seen, v); return nil })
	}
	if err := read(whole); err != nil || len(seen) != 2 || seen[0].Key != "k" || seen[0].Expires != 1 || seen[1].Items[0] != "-1" || seen[1].Expires != 0 {
		t.Fatal(seen, err)
	}
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			if read(b) == nil {
				t.Errorf("bit %d of byte %d is another one, and nobody says so", bit, i)
			}
		}
		if read(whole[:i]) == nil {
			t.Errorf("it ends at %d, and nobody says so", i)
		}
	}
	if err := read(append(whole[:len(whole)-trailer:len(whole)-trailer], 1, 2, 3, 4, 5, 6, 7, 8)); !errors.Is(err, ErrSum) {
		t.Error(err)
	}
	if err := read(append(bytes.Clone(whole), 0)); err == nil {
		t.Error("a byte too many")
	}
}

// Whatever a file has, it is read or refused.
func FuzzRead(f *testing.F) {
	f.Add("\x00\x01k\x01v")
	f.Add("\xf7\x81\x00\x00\x00\x00\x00\x00\x00\x01\x02\x01\x05\x01a\x00")
	f.Add("\x10\x01k\x0b\x0b\x00\x00\x00\x02\x00\x01\x01\x02\x01\xff")
	f.Fuzz(func(t *testing.T, body string) {
		b := file(body)
		_ = Read(bytes.NewReader(b), int64(len(b)), func(*Value) error { return nil })
	})
}
