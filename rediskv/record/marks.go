package record

// Marks are checksums of what Go writes step by step, one for each value: eight digits.
// A change that makes no marks, by an earlier release, leaves them as they are, and
// changes at least two of the values at once.
func Marks(key string, values ...string) string {
	marks := make([]byte, 0, digits*len(values))
	for i, value := range values {
		b := hexOf(sum(key, func(s *summer) { s.text(value); *s = append(*s, byte(i)) }))
		marks = append(marks, b[:]...)
	}
	return string(marks)
}

// Marked reports whether values are those that marks were made of. Damage of one bit
// makes one value differ; where more do, an earlier release has gone on, and nothing
// can be said. There may be no marks yet.
func Marked(marks, key string, values ...string) (same, whole bool) {
	now := Marks(key, values...)
	if marks == "" || marks == now {
		return marks != "", true
	}
	if len(marks) != len(now) {
		return false, false
	}
	differ := 0
	for at := 0; at < len(now); at += digits {
		if marks[at:at+digits] != now[at:at+digits] {
			differ++
		}
	}
	return false, differ > 1
}

// Copied is the name of the copy of a count, which scripts raise with it.
func Copied(name string) string { return name + "=" }
