package payments

import (
	"context"
	"fmt"
	"strconv"

	"tollgate"
)

// Used is what a counter of a limit says: Count, or, where that is no number,
// Damage.
type Used struct {
	Count  int64
	Damage error
}

// Counters reads what has been consumed, many counters in one round trip; a
// counter that is not there is 0.
func (s *Store) Counters(ctx context.Context, org string, names []string) ([]Used, error) {
	k := s.db.Space(org)
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = k.Counter(name)
	}
	texts, err := s.db.ReadStrings(ctx, "read_counters", keys)
	if err != nil {
		return nil, err
	}
	used := make([]Used, len(names))
	for i, found := range texts {
		if !found.There {
			continue
		}
		err := found.Err
		if err == nil {
			used[i].Count, err = counted(found.Text)
		}
		used[i].Damage = s.db.DamagedAt(ctx, keys[i], err)
	}
	return used, nil
}

// counted reads a counter as strictly as the scripts do (prelude.lua): what is
// not in the one decimal form cannot be counted further.
func counted(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n > tollgate.MaxMinor || n < -tollgate.MaxMinor {
		return 0, fmt.Errorf("counter %.32q is no number", text)
	}
	return n, nil
}
