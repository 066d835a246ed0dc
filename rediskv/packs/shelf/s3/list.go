package s3

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"tollgate/rediskv/packs/shelf"
)

// longestList is how long all pages of a listing may take.
const longestList = 10 * time.Minute

// List returns files, as shelf.Shelf says, with a request for each thousand.
func (b *Bucket) List(ctx context.Context, prefix string) ([]shelf.Item, error) {
	if err := shelf.CheckPrefix(prefix); err != nil {
		return nil, fmt.Errorf("list shelf: %w", err)
	}
	var all []shelf.Item
	last := "" // an attempt goes on behind what the one before has had
	err := try(ctx, longestList, func(ctx context.Context) error {
		ctx, end := context.WithCancel(ctx)
		defer end()
		for info := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true, StartAfter: last}) {
			if info.Err != nil {
				return info.Err
			}
			last = info.Key
			if name, is := strings.CutPrefix(info.Key, b.prefix); is && shelf.ValidName(name) {
				all = append(all, shelf.Item{Name: name, Size: info.Size})
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list shelf: %w", b.fault(b.prefix+prefix, err))
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// Remove removes a file, as shelf.Shelf says. In a bucket with versions it can be put back.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	key, err := b.key(name)
	if err == nil {
		err = try(ctx, b.within(0), func(ctx context.Context) error {
			return b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
		})
		if isMissing(err) {
			err = nil
		}
		err = b.fault(key, err)
	}
	if err != nil {
		return fmt.Errorf("remove from shelf: %w", err)
	}
	return nil
}

// Sweep has nothing to remove: an object that is put by one request is whole or not there.
func (b *Bucket) Sweep(ctx context.Context, _ time.Time) (removed int, err error) {
	return 0, ctx.Err()
}
