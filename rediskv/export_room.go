package rediskv

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// DefaultExportBytes is what the export files of one organization may take up
// of Redis' memory, compressed as they lie there, with their previews.
const DefaultExportBytes = 256 << 20

// exportsFull is the error when they take up all of that. Without a bound one
// client could fill the memory, and no payment of anybody would find room.
func (s *Store) exportsFull() error {
	return &tollgate.Error{Code: tollgate.CodeRateLimited, Message: fmt.Sprintf(
		"The files of the organization's exports take up all of the %d MiB that they may; delete one, or wait until one expires.", s.exportBytes>>20)}
}

// RemoveExportFile removes what is left of the file of an export that has
// ended: whoever ended it may have died before all was gone.
func (s *Store) RemoveExportFile(ctx context.Context, org, id string) error {
	k := s.space(org)
	var n int
	if err := s.timed(ctx, "export_chunks", func(ctx context.Context) (err error) {
		if n, err = s.client.HGet(ctx, k.object(id), "n").Int(); errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	}); err != nil {
		return err
	}
	return s.removeFile(ctx, k, id, n)
}

// chunksAtOnce is how many chunks one command touches at most.
const chunksAtOnce = 200

// removeFile takes away what there is of a file, and then off the tally.
func (s *Store) removeFile(ctx context.Context, k space, id string, chunks int) error {
	for first := 0; first < chunks; first += chunksAtOnce {
		if err := s.timed(ctx, "remove_chunks", func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			for n := first; n < min(first+chunksAtOnce, chunks); n++ {
				pipe.Unlink(ctx, k.chunk(id, n))
			}
			pipe.Unlink(ctx, k.ends(id))
			_, err := pipe.Exec(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	_, _, err := s.run(ctx, scriptFreeExport.with(freeExportKeys{k.exportSizes(), k.exportFiles()}, freeExportArgs{id}))
	return err
}

type freeExportKeys struct{ Sizes, Files string }

type freeExportArgs struct{ ExportID string }

var scriptFreeExport = newScript[freeExportKeys, freeExportArgs]("free_export")
