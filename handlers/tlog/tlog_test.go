package tlog_test

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"tollgate/handlers/tlog"
)

// kept is a tree whose tiles are stored after each step, as the service does.
type kept map[tlog.Tile][]tlog.Hash

func (k kept) read(tile tlog.Tile) ([]tlog.Hash, error) {
	if k[tile] == nil {
		return nil, errors.New("there is no such tile")
	}
	return k[tile], nil
}

func entry(i int64) string { return `{"seq":` + strconv.FormatInt(i, 10) + `}` }

// grow appends leaves up to a size in steps, each from what is stored.
func (k kept) grow(t *testing.T, size, step int64) *tlog.Tree {
	t.Helper()
	tree := tlog.New(0, k.read)
	for tree.Size < size {
		tree = tlog.New(tree.Size, k.read)
		for range min(step, size-tree.Size) {
			if err := tree.Append(tlog.LeafHash(entry(tree.Size))); err != nil {
				t.Fatal(err)
			}
		}
		for tile, hashes := range tree.Changed() {
			k[tile] = hashes
		}
	}
	return tlog.New(size, k.read)
}

func slicesOf(hashes []tlog.Hash) (list [][]byte) {
	for _, h := range hashes {
		list = append(list, h[:])
	}
	return list
}

// The roots are those that transparency-dev/merkle computes, and it accepts the proofs:
// at sizes around the edges of tiles of both levels.
func TestTreeIsThatOfRFC6962(t *testing.T) {
	t.Parallel()
	const largest = 66_000 // more than 256²
	checked := map[int64]bool{65_535: true, 65_536: true, 65_537: true, largest: true}
	for size := range int64(520) {
		checked[size] = true
	}
	judge := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	k := kept{}
	k.grow(t, largest, 1000)
	for size := int64(0); size <= largest; size++ {
		if checked[size] {
			want := rfc6962.DefaultHasher.EmptyRoot()
			if size > 0 {
				want, _ = judge.GetRootHash(nil)
			}
			k.judge(t, size, want)
		}
		if err := judge.Append(rfc6962.DefaultHasher.HashLeaf([]byte(entry(size))), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func (k kept) judge(t *testing.T, size int64, want []byte) {
	t.Helper()
	tree := tlog.New(size, k.read)
	root, err := tree.Root()
	if err != nil || !bytes.Equal(root[:], want) {
		t.Fatalf("size %d: root %x, want %x, %v", size, root, want, err)
	}
	for _, index := range []int64{0, 1, size / 3, size - 2, size - 1} {
		if index < 0 || index >= size {
			continue
		}
		path, err := tree.Inclusion(index)
		if err != nil {
			t.Fatal(err)
		}
		leaf := tlog.LeafHash(entry(index))
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), uint64(size), leaf[:], slicesOf(path), want); err != nil {
			t.Fatalf("size %d, leaf %d: %v", size, index, err)
		}
	}
}

// However many leaves are added at once, the tiles are the same.
func TestStepsDoNotMatter(t *testing.T) {
	t.Parallel()
	roots := map[tlog.Hash]bool{}
	for _, step := range []int64{1, 7, 255, 256, 257, 3000} {
		root, err := kept{}.grow(t, 2_100, step).Root()
		if err != nil {
			t.Fatal(err)
		}
		roots[root] = true
	}
	if len(roots) != 1 {
		t.Errorf("%d roots", len(roots))
	}
}

// What is asked of leaves that are not there, or of tiles that are too short, is an error.
func TestMissingTiles(t *testing.T) {
	t.Parallel()
	k := kept{}
	tree := k.grow(t, 300, 100)
	for _, index := range []int64{-1, 300} {
		if _, err := tree.Inclusion(index); err == nil {
			t.Errorf("leaf %d has a proof", index)
		}
		if _, err := tree.Leaf(index); err == nil {
			t.Errorf("there is a leaf %d", index)
		}
	}
	k[tlog.Tile{Index: 1}] = k[tlog.Tile{Index: 1}][:40]
	short := tlog.New(300, k.read)
	if _, err := short.Root(); err == nil {
		t.Error("a tile that is too short has a root")
	}
	delete(k, tlog.Tile{Index: 1})
	if err := tlog.New(300, k.read).Append(tlog.Hash{}); err == nil {
		t.Error("a leaf was added to a tile that is not there")
	}
}
