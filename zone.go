package tollgate

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"time"
)

// TZDBVersion is the release of the IANA time zone database that every local
// time is computed with.
//
// The database is part of the program, and only this copy is read: not the
// machine's, which time.LoadLocation prefers even to time/tzdata, and which
// two machines may have in different releases. A cutoff must be the same
// instant on all of them. scripts/zoneinfo.sh takes over a newer release.
const TZDBVersion = "2025c"

//go:embed scripts/zoneinfo.zip
var zoneinfo []byte

// zoneFile is a file of the database, as it stands in the archive.
type zoneFile struct {
	data []byte
	sum  uint32 // CRC-32
}

// zoneFiles are the files of the database by the name of their zone. They are not opened
// by way of package zip, which would bring all of package io/fs into the edge's program.
var zoneFiles = sync.OnceValues(func() (map[string]zoneFile, error) {
	archive, err := zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		return nil, fmt.Errorf("time zone database: %w", err)
	}
	files := make(map[string]zoneFile, len(archive.File))
	for _, f := range archive.File {
		at, err := f.DataOffset()
		if err == nil && f.Method != zip.Store {
			err = zip.ErrAlgorithm
		}
		if err != nil {
			return nil, fmt.Errorf("time zone database: %s: %w", f.Name, err)
		}
		files[f.Name] = zoneFile{zoneinfo[at : at+int64(f.UncompressedSize64)], f.CRC32}
	}
	return files, nil
})

var zones sync.Map // *time.Location by name; at most as many as there are files

// LoadZone loads an IANA time zone by its exact name. The machine's own zone
// ("Local", or no name) is none: it would make a decision depend on the
// machine.
func LoadZone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	files, err := zoneFiles()
	if err != nil {
		return nil, err
	}
	file, ok := files[name]
	if !ok || strings.HasSuffix(name, "/") { // a folder
		return nil, fmt.Errorf("%s is not an IANA time zone", quoted(name))
	}
	zone, err := file.read(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %s: %w", name, err)
	}
	zones.Store(name, zone)
	return zone, nil
}

func (f zoneFile) read(name string) (*time.Location, error) {
	if crc32.ChecksumIEEE(f.data) != f.sum {
		return nil, zip.ErrChecksum
	}
	return time.LoadLocationFromTZData(name, f.data)
}
