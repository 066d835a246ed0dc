package server

import (
	"cmp"
	"context"
	"fmt"

	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/health"
)

const checkArchive = "archive"

// archiveFindings are of the archive that the settings name, and the one that Redis refers
// to.
func archiveFindings(ctx context.Context, a *cli.App, c *cli.Config, o rediskv.Options) ([]health.Finding, error) {
	shelves := ReadShelves(c)
	if err := c.Err(); err != nil {
		return []health.Finding{{Check: checkArchive, Level: health.Failure, Message: err.Error(), Advice: "see 'tollgate help work'"}}, nil
	}
	db, err := rediskv.Bare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	s := archived{archive.New(db, archive.Options{Shelves: shelves}), logsOn(db, shelves)}
	var newest []newestLine
	var found []health.Finding
	lines := int64(0)
	for p := range db.Partitions() {
		l, err := s.Newest(ctx, p)
		switch {
		case err != nil && rediskv.Away(err):
			return nil, err
		case err != nil:
			found = append(found, health.Finding{Check: checkArchive, Level: health.Failure, Message: fmt.Sprintf("the manifest of partition %d cannot be read: %v", p, err), Advice: "restore a backup of Redis"})
		case l != nil:
			newest, lines = append(newest, newestLine{p, l.Name(), func(ctx context.Context, shelf int) error { return s.On(ctx, shelf, l) }}), lines+l.Number
		}
		of, err := s.logs.Manifest(ctx, p)
		switch {
		case err != nil && rediskv.Away(err):
			return nil, err
		case err != nil:
			found = append(found, health.Finding{Check: checkArchive, Level: health.Failure, Message: fmt.Sprintf("the manifest of the logs of partition %d cannot be read: %v", p, err), Advice: "restore a backup of Redis"})
		case len(of) > 0:
			l := of[len(of)-1]
			newest, lines = append(newest, newestLine{p, l.Name(), func(ctx context.Context, shelf int) error { return s.logs.On(ctx, shelf, l) }}), lines+l.Number
		}
	}
	switch {
	case len(shelves) > 0:
	case lines == 0:
		return append(found, health.Finding{Check: checkArchive, Level: health.Unknown, Message: "TOLLGATE_ARCHIVE_URL is not set here, and Redis refers to no archive"}), nil
	default:
		return append(found, health.Finding{
			Check: checkArchive, Level: health.Warning, Message: fmt.Sprintf("Redis refers to %d packs, and TOLLGATE_ARCHIVE_URL is not set here: whoever needs them gets 503", lines),
			Advice: "set it to what every serve and work has",
		}), nil
	}
	for i := range shelves {
		found = append(found, shelfFinding(ctx, a, s, i, newest))
	}
	return found, nil
}

// newestLine is the last one of a manifest.
type newestLine struct {
	partition int
	name      string // of its file
	on        func(ctx context.Context, shelf int) error
}

// shelfFinding is of one of the places where the archive is.
func shelfFinding(ctx context.Context, a *cli.App, s archived, shelf int, newest []newestLine) health.Finding {
	what, name := "the archive", "TOLLGATE_ARCHIVE_URL"
	if shelf > 0 {
		what, name = "the archive's copy", "TOLLGATE_ARCHIVE_COPY"
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.StoreTimeout, doctorTimeout))
	defer cancel()
	for _, l := range newest {
		if err := l.on(ctx, shelf); err != nil {
			return health.Finding{
				Check: checkArchive, Level: health.Failure, Message: fmt.Sprintf("%s lacks %s, the newest line of partition %d: %v", what, l.name, l.partition, err),
				Advice: "look whether its volume is mounted and " + name + " is the right one; 'tollgate archive check' names all that is missing",
			}
		}
	}
	if err := s.Probe(ctx, shelf); err != nil {
		return health.Finding{Check: checkArchive, Level: health.Failure, Message: what + " cannot be written: " + err.Error(), Advice: "look at " + name + ", its disk and its permissions"}
	}
	return health.Finding{Check: checkArchive, Level: health.Fine, Message: what + " can be read and written"}
}
