package tollgate_test

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"tollgate"
)

// The name of the release must be that of the data. The hash holds them
// together; scripts/zoneinfo.sh changes both.
func TestZoneDatabaseIsTheOneItSays(t *testing.T) {
	data, err := os.ReadFile("scripts/zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	const want = "2025c 8f55634d05f8bca1f7bc7c69c5933428"
	if got := tollgate.TZDBVersion + " " + hex.EncodeToString(sum[:16]); got != want {
		t.Errorf("the database is %s, not %s", got, want)
	}
	offset := func(name string, at time.Time) int {
		zone, err := tollgate.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		_, seconds := at.In(zone).Zone()
		return seconds / 3600
	}
	// What the releases changed (data.iana.org/time-zones/tzdb/NEWS).
	for _, c := range []struct {
		release, zone string
		at            time.Time
		hours         int
	}{
		{"2024b", "America/Scoresbysund", time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC), -1},
		{"2025a", "Asia/Manila", time.Date(1990, 6, 1, 0, 0, 0, 0, time.UTC), 9},
		{"2025b", "America/Coyhaique", time.Date(2025, 7, 1, 0, 0, 0, 0, time.UTC), -3},
		{"2025c", "America/Tijuana", time.Date(1962, 7, 1, 0, 0, 0, 0, time.UTC), -7},
	} {
		if got := offset(c.zone, c.at); got != c.hours {
			t.Errorf("%s, changed in %s: offset %d h at %v, want %d", c.zone, c.release, got, c.at, c.hours)
		}
	}
}

func TestLoadZone(t *testing.T) {
	for _, name := range zoneNames(t) {
		zone, err := tollgate.LoadZone(name)
		if err != nil || zone.String() != name {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
	for _, name := range []string{
		"", "Local", "europe/berlin", "Europe/Berlin ", "Europe", "Europe/", "Europe/Bonn", "../Europe/Berlin",
		"/usr/share/zoneinfo/UTC", "Europe\\Berlin", "Europe/Berlin\x00", "+01:00", "CET-1CEST", strings.Repeat("A", 10_000),
	} {
		if zone, err := tollgate.LoadZone(name); err == nil {
			t.Errorf("%q is %v", name, zone)
		} else if len(err.Error()) > 200 {
			t.Errorf("%q: the message has %d bytes", name[:20], len(err.Error()))
		}
	}
}

// zoneNames are all names of the database.
func zoneNames(t testing.TB) []string {
	t.Helper()
	archive, err := zip.OpenReader("scripts/zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var names []string
	for _, f := range archive.File {
		if !f.FileInfo().IsDir() {
			names = append(names, f.Name)
		}
	}
	if len(names) < 500 {
		t.Fatalf("the database has %d zones", len(names))
	}
	return names
}
