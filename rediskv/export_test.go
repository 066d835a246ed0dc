package rediskv

// KnownEndpoints is how many endpoints the Store keeps in memory.
func (s *Store) KnownEndpoints() (n int) {
	s.endpoints.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
