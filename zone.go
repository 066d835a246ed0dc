package tollgate

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
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

// zoneFiles are the files of the database by the name of their zone.
var zoneFiles = sync.OnceValues(func() (map[string]*zip.File, error) {
	archive, err := zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		return nil, fmt.Errorf("time zone database: %w", err)
	}
	files := make(map[string]*zip.File, len(archive.File))
	for _, f := range archive.File {
		files[f.Name] = f
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
	if !ok || file.FileInfo().IsDir() {
		return nil, fmt.Errorf("%s is not an IANA time zone", quoted(name))
	}
	zone, err := readZone(file)
	if err != nil {
		return nil, fmt.Errorf("time zone %s: %w", name, err)
	}
	zones.Store(name, zone)
	return zone, nil
}

func readZone(file *zip.File) (*time.Location, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(file.Name, data)
}
