package packs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
)

// Verify reads all of a pack once, and compares each digest, the order of all rows and the
// SHA-256 of the file with sum. The error joins a *DamagedError for each frame that is
// damaged, and one for the file if it has another digest. If the index can be read there is
// a pack even then: its other frames can be used.
func Verify(ctx context.Context, src Source, size int64, sum string) (*Pack, error) {
	var found []error
	var damage *DamagedError
	p, err := Open(ctx, src, size)
	if err != nil && !errors.As(err, &damage) {
		return nil, err
	}
	if err != nil {
		p, found = nil, append(found, err)
	}
	file, at := sha256.New(), int64(0)
	if p != nil {
		for n := range p.index.Frames {
			packed, err := p.read(ctx, n)
			if err != nil {
				return nil, err
			}
			file.Write(packed)
			_, err = p.unpack(n, packed)
			found = append(found, err)
		}
		at = p.end
	}
	if err := addRest(ctx, file, src, at, size); err != nil {
		return nil, err
	}
	if is := hex.EncodeToString(file.Sum(nil)); is != sum {
		found = append(found, damaged("its SHA-256 is %s, and should be %s", is, sum))
	}
	return p, errors.Join(found...)
}

// addRest adds what follows an offset to a digest.
func addRest(ctx context.Context, to hash.Hash, src Source, at, size int64) error {
	b := make([]byte, tail)
	for at < size {
		b = b[:min(size-at, tail)]
		if err := src.ReadAt(ctx, b, at); err != nil {
			return fmt.Errorf("read pack at %d: %w", at, err)
		}
		to.Write(b)
		at += int64(len(b))
	}
	return nil
}
