// Package tlog is the Merkle tree of RFC 6962 over an audit record, kept in tiles as
// C2SP tlog-tiles has them: hashes of 256 leaves, hashes of 256 such tiles, and so on.
// It is pure: tiles are read through a function, and changed ones are handed back.
//
// Package auditor judges what this one makes, by another implementation.
package tlog

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

// TileWidth is how many hashes a full tile has; tileHeight its base-2 logarithm.
const (
	TileWidth  = 256
	tileHeight = 8
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// LeafHash is that of an entry, by its exact bytes (RFC 6962 §2.1).
func LeafHash(entry string) Hash { return sha256.Sum256(append([]byte{0}, entry...)) }

func parentHash(left, right Hash) Hash {
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

// Tile names a tile: at level 0 the hashes of leaves, at level n those of full tiles of
// the level below.
type Tile struct {
	Level int
	Index int64
}

// ReadFunc reads a tile; it may have more hashes than the tree that is asked about.
type ReadFunc func(Tile) ([]Hash, error)

// Tree is one of a size. It reads each tile once.
type Tree struct {
	Size int64

	read    ReadFunc
	tiles   map[Tile][]Hash
	changed map[Tile]bool
}

// New is the tree with so many leaves whose tiles are read by read.
func New(size int64, read ReadFunc) *Tree {
	return &Tree{Size: size, read: read, tiles: map[Tile][]Hash{}, changed: map[Tile]bool{}}
}

// Append adds leaves. After an error the tree must not be used any more.
func (t *Tree) Append(leaves ...Hash) error {
	for _, h := range leaves {
		if err := t.add(0, t.Size, h); err != nil {
			return err
		}
		t.Size++
	}
	return nil
}

// add puts a hash at a place of a level; a tile that is full by that has a hash itself.
func (t *Tree) add(level int, at int64, h Hash) error {
	tile, within := Tile{level, at / TileWidth}, int(at%TileWidth)
	if within == 0 {
		t.tiles[tile] = nil
	}
	has, err := t.tile(tile, within)
	if err != nil {
		return err
	}
	has = append(has[:within:within], h)
	t.tiles[tile], t.changed[tile] = has, true
	if len(has) < TileWidth {
		return nil
	}
	return t.add(level+1, tile.Index, fold(has))
}

// Changed are the tiles that Append has changed, with their hashes.
func (t *Tree) Changed() map[Tile][]Hash {
	all := maps.Clone(t.tiles)
	maps.DeleteFunc(all, func(tile Tile, _ []Hash) bool { return !t.changed[tile] })
	return all
}

// tile reads one that has at least so many hashes.
func (t *Tree) tile(tile Tile, least int) ([]Hash, error) {
	has, known := t.tiles[tile]
	if !known {
		var err error
		if has, err = t.read(tile); err != nil {
			return nil, err
		}
		t.tiles[tile] = has
	}
	if len(has) < least {
		return nil, fmt.Errorf("tile %d of level %d has %d hashes, not %d", tile.Index, tile.Level, len(has), least)
	}
	return has, nil
}

// Root is the hash of the whole tree.
func (t *Tree) Root() (Hash, error) {
	if t.Size == 0 {
		return sha256.Sum256(nil), nil
	}
	return t.hash(0, t.Size)
}

// Leaf is the hash of one.
func (t *Tree) Leaf(index int64) (Hash, error) {
	if index < 0 || index >= t.Size {
		return Hash{}, fmt.Errorf("the tree has %d leaves, and none at %d", t.Size, index)
	}
	return t.hash(index, index+1)
}

// Inclusion proves that a leaf is in the tree (RFC 6962 §2.1.1): hashes from the leaf up.
func (t *Tree) Inclusion(index int64) ([]Hash, error) {
	if index < 0 || index >= t.Size {
		return nil, fmt.Errorf("the tree has %d leaves, and none at %d", t.Size, index)
	}
	return t.path(index, 0, t.Size)
}

func (t *Tree) path(index, low, high int64) (proof []Hash, err error) {
	if high-low == 1 {
		return nil, nil
	}
	middle := low + split(high-low)
	beside := [2]int64{middle, high}
	if index < middle {
		proof, err = t.path(index, low, middle)
	} else {
		beside = [2]int64{low, middle}
		proof, err = t.path(index, middle, high)
	}
	if err != nil {
		return nil, err
	}
	h, err := t.hash(beside[0], beside[1])
	return append(proof, h), err
}

// hash is that of the leaves from low on, before high.
func (t *Tree) hash(low, high int64) (Hash, error) {
	n := high - low
	if n&(n-1) == 0 && low%n == 0 {
		return t.node(bits.TrailingZeros64(uint64(n)), low/n)
	}
	middle := low + split(n)
	left, err := t.hash(low, middle)
	if err != nil {
		return Hash{}, err
	}
	right, err := t.hash(middle, high)
	return parentHash(left, right), err
}

// node is the hash of 2^height leaves from index·2^height on.
func (t *Tree) node(height int, index int64) (Hash, error) {
	level, above := height/tileHeight, height%tileHeight
	first := index << above
	within := int(first % TileWidth)
	has, err := t.tile(Tile{level, first / TileWidth}, within+1<<above)
	if err != nil {
		return Hash{}, err
	}
	return fold(has[within : within+1<<above]), nil
}

// fold is the hash above a power of two of hashes.
func fold(hashes []Hash) Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := len(hashes) / 2
	return parentHash(fold(hashes[:half]), fold(hashes[half:]))
}

// split is the largest power of two below n, which is above 1.
func split(n int64) int64 { return 1 << (bits.Len64(uint64(n-1)) - 1) }

// Split cuts stored hashes apart; Join is the other way round. What is no whole hash at
// the end is left out.
func Split(stored []byte) []Hash {
	hashes := make([]Hash, len(stored)/sha256.Size)
	for i := range hashes {
		copy(hashes[i][:], stored[i*sha256.Size:])
	}
	return hashes
}

// Join puts hashes behind one another.
func Join(hashes []Hash) []byte {
	stored := make([]byte, 0, len(hashes)*sha256.Size)
	for i := range hashes {
		stored = append(stored, hashes[i][:]...)
	}
	return stored
}

// IndexOf is the place of a leaf, -1 where it is none. It looks at a likely place first,
// and then everywhere.
func (t *Tree) IndexOf(leaf Hash, likely int64) (int64, error) {
	if likely >= 0 && likely < t.Size {
		if h, err := t.Leaf(likely); err != nil || h == leaf {
			return likely, err
		}
	}
	for first := int64(0); first < t.Size; first += TileWidth {
		n := int(min(TileWidth, t.Size-first))
		has, err := t.tile(Tile{0, first / TileWidth}, n)
		if err != nil {
			return -1, err
		}
		if i := slices.Index(has[:n], leaf); i >= 0 {
			return first + int64(i), nil
		}
	}
	return -1, nil
}
