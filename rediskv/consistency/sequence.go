package consistency

// Sequence follows the numbers of a log: each is given once, in the order of the
// log, without a gap.
type Sequence struct {
	Log  string // events or audit
	last int64
}

// Next takes the number of the log's next entry, which is named by where it stands.
func (s *Sequence) Next(n int64, place string) []Finding {
	before := s.last
	s.last = n
	switch {
	case before == 0 || n == before+1:
		return nil
	case n <= before:
		return []Finding{Found(FindingSequence, s.Log, place, "entry %s has number %d, and %d was given before", place, n, before)}
	default:
		return []Finding{Found(FindingSequence, s.Log, place, "%d to %d are missing before entry %s", before+1, n-1, place)}
	}
}

// End compares the last number with the counter that numbers are given from.
func (s *Sequence) End(counter int64) []Finding {
	if s.last == 0 || s.last == counter {
		return nil
	}
	return []Finding{Found(FindingSequence, s.Log, s.Log, "the last entry has number %d, and %d have been given", s.last, counter)}
}
