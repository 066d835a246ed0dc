package archive

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// Newest is the last line of a partition's manifest, with nothing read but that; nil
// without any.
func (s *Store) Newest(ctx context.Context, partition int) (*Line, error) {
	key, number, text := rediskv.ArchiveKey(partition), int64(0), ""
	err := s.db.Timed(ctx, "archive_newest", func(ctx context.Context) (err error) {
		if there, err := s.db.Redis.Exists(ctx, key).Result(); err != nil || there == 0 {
			return err
		}
		if number, err = s.db.Redis.HGet(ctx, key, "n").Int64(); err == nil && number > 0 {
			text, err = s.db.Redis.HGet(ctx, key, strconv.FormatInt(number, 10)).Result()
		}
		return err
	})
	if err != nil || number == 0 {
		return nil, err
	}
	if text, err = record.Opened(lineKey(key, number), text); err != nil {
		return nil, err
	}
	return ParseLine(text)
}

// On says what keeps a line's file from being read on a shelf, by its number.
func (s *Store) On(ctx context.Context, shelf int, l *Line) error {
	return l.is(ctx, s.Shelves[shelf])
}

// Probe puts a small file on a shelf, reads it back, and removes it. Its name is none of a
// line or a pack.
func (s *Store) Probe(ctx context.Context, shelf int) error {
	on := s.Shelves[shelf]
	text := strings.ToLower(s.db.NewID("probe-"))
	name := text + ".txt"
	if err := on.Put(ctx, name, int64(len(text)), strings.NewReader(text)); err != nil {
		return err
	}
	is, err := on.Text(ctx, name)
	if err == nil && string(is) != text {
		err = fmt.Errorf("%s was written, and another text is read there", name)
	}
	return errors.Join(err, on.Remove(ctx, name))
}
