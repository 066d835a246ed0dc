package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/rdb"
)

// The files of a copy beside one for each master. sums is what sha256sum reads and
// writes.
const (
	manifestFile = "manifest.json"
	sums         = "SHA256SUMS"
)

// format is the only one that there is.
const format = "tollgate-backup/1"

// Manifest says what a copy has.
type Manifest struct {
	Format string `json:"format"`
	ID     string `json:"id"`
	// TakenAt is the clock of Redis when it was asked for; what was acknowledged before
	// is in the copy.
	TakenAt      tollgate.Instant `json:"taken_at"`
	RedisVersion string           `json:"redis_version"`
	Partitions   int              `json:"partitions"`
	SecretKey    string           `json:"secret_key,omitempty"` // id of the one that opens what is encrypted in it
	Files        []File           `json:"files"`
	Contents     []Partition      `json:"contents"` // partitions that have anything
}

// File is what one master had.
type File struct {
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	Keys     int64  `json:"keys"` // of Tollgate
	Database int    `json:"database"`
}

// Partition is what a copy has of one.
type Partition struct {
	Partition     int              `json:"partition"`
	HistoryID     string           `json:"history_id"`
	LastEventAt   tollgate.Instant `json:"last_event_at"` // by Redis' clock; 0: there is none
	Organizations []Organization   `json:"organizations"`
	Bytes         int64            `json:"bytes"` // of names and values

	record history.Record
	known  bool // the record could be read
	file   int
}

// Organization is how far the log of one goes.
type Organization struct {
	ID       string `json:"organization_id"`
	Sequence int64  `json:"sequence"`
}

// Copy is a directory with a copy of a Redis.
type Copy struct {
	Manifest
	dir string
}

// Open reads the manifest of a copy, and compares each file with its checksum.
func Open(dir string) (*Copy, error) {
	want, err := readSums(filepath.Join(dir, sums))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is no copy: it has no %s", dir, sums)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		sum, _, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if sum != want[name] {
			return nil, fmt.Errorf("%s is damaged: its SHA-256 is not the one in %s", filepath.Join(dir, name), sums)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, err
	}
	c := &Copy{dir: dir}
	if err := json.Unmarshal(text, &c.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, manifestFile), err)
	}
	if c.Format != format {
		return nil, fmt.Errorf("%s is a copy of format %q, and this release knows %q", dir, c.Format, format)
	}
	for _, f := range append(slices.Clone(c.Files), File{Name: manifestFile}) {
		if sum, ok := want[f.Name]; !ok || f.SHA256 != "" && sum != f.SHA256 {
			return nil, fmt.Errorf("%s is damaged: %s and %s do not agree on %s", dir, sums, manifestFile, f.Name)
		}
	}
	return c, nil
}

var sumLine = regexp.MustCompile(`^([0-9a-f]{64})  ([\w.-]+)\n$`)

func readSums(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		part := sumLine.FindStringSubmatch(line)
		if part == nil {
			return nil, fmt.Errorf("%s is damaged: %.90q is no line of it", file, line)
		}
		want[part[2]] = part[1]
	}
	return want, nil
}

func sumOf(file string) (sum string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// ours matches the keys of Tollgate.
var ours = regexp.MustCompile(`^(?:tollgate:|\{p(\d+)\}:)`)

// partitionOf is the partition of a key of Tollgate, -1 for one outside all of them.
func partitionOf(key string) (partition int, is bool) {
	part := ours.FindStringSubmatch(key)
	if part == nil {
		return 0, false
	}
	if part[1] == "" {
		return -1, true
	}
	n, err := strconv.Atoi(part[1])
	return n, err == nil
}

// Each reads the copy and hands over what is Tollgate's, value by value, with the file
// that it is in.
func (c *Copy) Each(visit func(file, partition int, v *rdb.Value) error) error {
	for i, file := range c.Files {
		if err := c.eachIn(file, func(partition int, v *rdb.Value) error { return visit(i, partition, v) }); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(c.dir, file.Name), err)
		}
	}
	return nil
}

func (c *Copy) eachIn(file File, visit func(partition int, v *rdb.Value) error) error {
	f, err := os.Open(filepath.Join(c.dir, file.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	return rdb.Read(bufio.NewReaderSize(f, 1<<18), file.Size, func(v *rdb.Value) error {
		if p, is := partitionOf(v.Key); is && v.Database == file.Database {
			return visit(p, v)
		}
		return nil
	})
}

// inventory is what a reading of a copy finds.
type inventory struct {
	meta  map[string]string
	parts map[int]*Partition
	keys  []int64 // by file
}

// take reads all of the copy and says what is in it.
func (c *Copy) take() (*inventory, error) {
	have := &inventory{meta: map[string]string{}, parts: map[int]*Partition{}, keys: make([]int64, len(c.Files))}
	err := c.Each(func(file, partition int, v *rdb.Value) error {
		have.keys[file]++
		if partition < 0 {
			if v.Key == rediskv.MetaKey && v.Type == rdb.Hash {
				have.meta = pairs(v.Items)
			}
			return nil
		}
		p := have.parts[partition]
		if p == nil {
			p = &Partition{Partition: partition, file: file}
			have.parts[partition] = p
		}
		if p.file != file {
			return fmt.Errorf("partition %d is in %s, too: its slot moved meanwhile. Make another copy", partition, c.Files[p.file].Name)
		}
		p.note(v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range have.parts {
		slices.SortFunc(p.Organizations, func(a, b Organization) int { return strings.Compare(a.ID, b.ID) })
	}
	return have, nil
}

var logOf = regexp.MustCompile(`^\{p\d+\}:(org_\w+):(events|seq)$`)

// note notes what a value says of its partition.
func (p *Partition) note(v *rdb.Value) {
	p.Bytes += weight(v)
	if v.Key == rediskv.HistoryKey(p.Partition) && v.Type == rdb.Hash {
		p.record, p.known = history.RecordOf(v.Key, pairs(v.Items))
		p.HistoryID = p.record.ID
	}
	part := logOf.FindStringSubmatch(v.Key)
	switch {
	case part == nil:
	case v.Type == rdb.Log:
		p.LastEventAt = max(p.LastEventAt, tollgate.Instant(v.Stream.Last.Ms))
	case v.Type == rdb.Hash:
		n, _ := strconv.ParseInt(pairs(v.Items)["event"], 10, 64) // another one is for the checks to find
		p.Organizations = append(p.Organizations, Organization{part[1], n})
	}
}

func weight(v *rdb.Value) (bytes int64) {
	bytes = int64(len(v.Key))
	for _, item := range v.Items {
		bytes += int64(len(item))
	}
	if v.Stream != nil {
		for _, e := range v.Stream.Entries {
			for _, field := range e.Fields {
				bytes += int64(len(field))
			}
		}
	}
	return bytes
}

func pairs(items []string) map[string]string {
	m := make(map[string]string, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		m[items[i]] = items[i+1]
	}
	return m
}

// contents are the partitions that have organizations, in order.
func (have *inventory) contents() (list []Partition) {
	for _, p := range slices.Sorted(maps.Keys(have.parts)) {
		if one := have.parts[p]; len(one.Organizations) > 0 {
			list = append(list, *one)
		}
	}
	return list
}

// write writes a text to a file of the directory, to the disk.
func write(dir, name string, text []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// finish writes the manifest and the checksums of a directory that has the other files.
func (c *Copy) finish() error {
	text, err := json.Marshal(&c.Manifest, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := write(c.dir, manifestFile, text); err != nil {
		return err
	}
	var list strings.Builder
	for _, f := range c.Files {
		fmt.Fprintf(&list, "%s  %s\n", f.SHA256, f.Name)
	}
	sum := sha256.Sum256(text)
	fmt.Fprintf(&list, "%x  %s\n", sum, manifestFile)
	return write(c.dir, sums, []byte(list.String()))
}

// settle has what the directory names be on the disk.
func settle(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
