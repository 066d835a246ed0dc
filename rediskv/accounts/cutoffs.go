package accounts

import (
	"fmt"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// CutoffsOf reads the versions of an account's cutoff and its last closed
// sales day. An account from before versions were kept has the one.
func CutoffsOf(f rediskv.Fields, current tollgate.Cutoff) (*tollgate.Timeline, tollgate.Date, error) {
	versions, closed, err := CutoffVersions(f)
	if err != nil {
		return nil, tollgate.NoDate, err
	}
	if versions == nil {
		versions = []tollgate.CutoffVersion{{Cutoff: current}}
	}
	t, err := tollgate.NewTimeline(versions)
	return t, closed, err
}

// CutoffVersions are nil where none were kept.
func CutoffVersions(f rediskv.Fields) (versions []tollgate.CutoffVersion, closed tollgate.Date, err error) {
	if text := f["cutoffs"]; text != "" {
		if err := record.Decode(text, &versions); err != nil {
			return nil, tollgate.NoDate, fmt.Errorf("cutoffs: %w", err)
		}
	}
	if text := f["closed"]; text != "" {
		if closed, err = tollgate.ParseDate(text); err != nil {
			return nil, tollgate.NoDate, fmt.Errorf("closed: %w", err)
		}
	}
	return versions, closed, nil
}
