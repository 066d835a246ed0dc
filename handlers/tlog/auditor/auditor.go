// Package auditor judges an audit record from outside: what it is told are rows of the
// tree and checkpoints, and what it says is which entries are not those that were sealed.
// The arithmetic is that of transparency-dev/merkle and shares nothing with package tlog,
// which the service computes with.
package auditor

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"tollgate/handlers/tlog"
	"tollgate/handlers/tlog/checkpoint"
)

// Kind is what is wrong.
type Kind string

const (
	Changed    Kind = "changed"    // an entry is not the one that was sealed
	Missing    Kind = "missing"    // an entry that was sealed is not there
	Inserted   Kind = "inserted"   // an entry stands among those that were sealed, and was not
	Reordered  Kind = "reordered"  // an entry stands elsewhere than where it was sealed
	Root       Kind = "root"       // the hashes are not those that were signed
	Signature  Kind = "signature"  // a checkpoint is signed by nobody who is known
	Checkpoint Kind = "checkpoint" // a checkpoint is missing or says something else
	Rollback   Kind = "rollback"   // the tree is smaller than it was
	Fork       Kind = "fork"       // the tree is another one than it was
	Unreadable Kind = "unreadable" // something is no such thing at all
)

// Finding names one thing that is wrong.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Index   int64  `json:"index"` // of the leaf, -1 for none
	Seq     int64  `json:"seq"`   // number of the entry, 0 for none
	ID      string `json:"id"`    // of the entry, as it is now
	Message string `json:"message"`
}

func (f Finding) String() string { return string(f.Kind) + ": " + f.Message }

// Tree is a tree while its rows come in, from leaf 0 on.
type Tree struct {
	Latest checkpoint.Checkpoint // the last one, which says what must be there
	Checked,
	Unsealed int64 // entries that are what was sealed, and that are not sealed yet

	leaves int64 // hashes so far
	sums   *compact.Range
	wanted map[int64]bool
	roots  map[int64]tlog.Hash // by size
	seam   *string

	offset   int64 // number of an entry less its leaf's place, once one is known
	known    bool
	unpaired []unpaired          // entries, in the order of the log
	open     map[int64]tlog.Hash // leaves without an entry, by place
	findings []Finding
}

// unpaired is an entry that is not what its row's leaf says.
type unpaired struct {
	entry entry
	hash  tlog.Hash
	row   int64
	after int64 // how many entries were paired before it
}

// New begins with the last checkpoint of a tree. The roots at these sizes, too, can be
// compared later.
func New(latest checkpoint.Checkpoint, sizes ...int64) *Tree {
	t := &Tree{
		Latest: latest, sums: (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0),
		wanted: map[int64]bool{latest.Size: true}, roots: map[int64]tlog.Hash{0: tlog.Hash(rfc6962.DefaultHasher.EmptyRoot())}, open: map[int64]tlog.Hash{},
	}
	for _, size := range sizes {
		t.wanted[size] = true
	}
	return t
}

// Row takes the next one: the stored hash of a leaf (base64, nil behind the last leaf),
// and the entry at the same place of the log, nil where there is none.
func (t *Tree) Row(index int64, hash, text *string) error {
	var leaf *tlog.Hash
	if hash != nil {
		raw, err := base64.StdEncoding.DecodeString(*hash)
		if err != nil || len(raw) != len(tlog.Hash{}) || index != t.leaves {
			return fmt.Errorf("row %d is no leaf: a SHA-256 in base64 is expected, and leaf %d", index, t.leaves)
		}
		leaf = (*tlog.Hash)(raw)
		if err := t.append(leaf); err != nil {
			return err
		}
	}
	if text == nil {
		if leaf != nil && index >= t.Latest.KeptFrom {
			t.open[index] = *leaf
		}
		return nil
	}
	is := tlog.Hash(rfc6962.DefaultHasher.HashLeaf([]byte(*text)))
	if index == 0 && !isEntry(*text) {
		t.seam = text
		if leaf == nil || *leaf != is {
			t.find(Changed, 0, entry{}, "leaf 0, the last checkpoint of the history before, is not what was sealed")
		}
		return nil
	}
	e := read(*text)
	if leaf != nil && *leaf == is {
		t.Checked++
		t.offset, t.known = e.Seq-index, true
		return nil
	}
	t.unpaired = append(t.unpaired, unpaired{e, is, index, t.Checked})
	if leaf != nil && index >= t.Latest.KeptFrom {
		t.open[index] = *leaf
	}
	return nil
}

func (t *Tree) append(leaf *tlog.Hash) error {
	if err := t.sums.Append(leaf[:], nil); err != nil {
		return err
	}
	t.leaves++
	if !t.wanted[t.leaves] {
		return nil
	}
	root, err := t.sums.GetRootHash(nil)
	t.roots[t.leaves] = tlog.Hash(root)
	return err
}

// Seam is the last checkpoint of the tree before, "" for the first tree.
func (t *Tree) Seam() string {
	if t.seam == nil {
		return ""
	}
	return *t.seam
}

func (t *Tree) find(kind Kind, index int64, e entry, format string, args ...any) {
	t.findings = append(t.findings, Finding{kind, index, e.Seq, e.ID, fmt.Sprintf(format, args...)})
}

// End is called behind the last row. It says what is wrong.
func (t *Tree) End() []Finding {
	t.Earlier("the last checkpoint", t.Latest)
	t.pair()
	slices.SortStableFunc(t.findings, func(a, b Finding) int { return int(a.Index - b.Index) })
	return t.findings
}

// Earlier compares the tree with a checkpoint whose signature is known to be right, at a
// size that New was told.
func (t *Tree) Earlier(name string, c checkpoint.Checkpoint) {
	root, there := t.roots[c.Size]
	switch {
	case c.Size > t.leaves:
		t.find(Rollback, -1, entry{}, "%s has %d leaves, and the tree has %d: it was cut off or rolled back", name, c.Size, t.leaves)
	case !there:
		t.find(Unreadable, -1, entry{}, "the root at size %d is not known", c.Size)
	case root == c.Root:
	case c.Size == t.Latest.Size && c == t.Latest:
		t.find(Root, -1, entry{}, "the hashes of the tree are not those that were signed: at %d leaves the root is %s, and %s says %s", c.Size, base64.StdEncoding.EncodeToString(root[:]), name, base64.StdEncoding.EncodeToString(c.Root[:]))
	default:
		t.find(Fork, -1, entry{}, "at %d leaves the tree is another one than %s says: somebody has written the record anew", c.Size, name)
	}
}

// Inclusion verifies a proof: hashes (base64) from the leaf of an entry up to the root of
// a checkpoint that one of the keys has signed.
func Inclusion(text string, index int64, hashes []string, note string, keys ...ed25519.PublicKey) (checkpoint.Checkpoint, error) {
	c, err := checkpoint.Open(note, keys...)
	if err != nil {
		return c, err
	}
	path := make([][]byte, len(hashes))
	for i, h := range hashes {
		if path[i], err = base64.StdEncoding.DecodeString(h); err != nil {
			return c, err
		}
	}
	if index < 0 {
		return c, fmt.Errorf("there is no leaf %d", index)
	}
	return c, proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), uint64(c.Size), rfc6962.DefaultHasher.HashLeaf([]byte(text)), path, c.Root[:])
}
