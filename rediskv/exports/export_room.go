package exports

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/script"
)

// RemoveExportFile removes what is left of the file of an export that has
// ended: whoever ended it may have died before all was gone.
func (s *Store) RemoveExportFile(ctx context.Context, org, id string) error {
	k := s.db.Space(org)
	var n int
	if err := s.db.Timed(ctx, "export_chunks", func(ctx context.Context) (err error) {
		if n, err = s.db.Redis.HGet(ctx, k.Object(id), "n").Int(); errors.Is(err, redis.Nil) {
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
func (s *Store) removeFile(ctx context.Context, k rediskv.Space, id string, chunks int) error {
	for first := 0; first < chunks; first += chunksAtOnce {
		if err := s.db.Timed(ctx, "remove_chunks", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for n := first; n < min(first+chunksAtOnce, chunks); n++ {
				pipe.Unlink(ctx, k.Chunk(id, n))
			}
			pipe.Unlink(ctx, k.Ends(id))
			_, err := pipe.Exec(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	_, err := s.freeExport(ctx, k, id)
	return err
}

type freeExportKeys struct{ Sizes, Files string }

type freeExportArgs struct {
	ExportID string
	NowMs    int64
}

var scriptFreeExport = script.New[freeExportKeys, freeExportArgs](lua, "free_export")

// freeExport takes a file that is gone off the tally, or only those that are gone
// by themselves, and returns the bytes of the others.
func (s *Store) freeExport(ctx context.Context, k rediskv.Space, id string) (bytes int64, err error) {
	_, rest, err := s.db.Run(ctx, scriptFreeExport.With(freeExportKeys{k.ExportSizes(), k.ExportFiles()}, freeExportArgs{id, int64(s.db.Now())}))
	if err != nil {
		return 0, err
	}
	text, _ := rest[0].(string)
	return strconv.ParseInt(text, 10, 64)
}
