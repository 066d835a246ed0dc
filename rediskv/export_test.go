package rediskv

// KnownEndpoints is how many endpoints the Store keeps in memory.
func (s *Store) KnownEndpoints() (n int) {
	s.endpoints.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

// ScriptHashes are the scripts that the Store opens with, by name.
func ScriptHashes() map[string]string {
	hashes := map[string]string{}
	for _, s := range allScripts {
		hashes[s.name] = s.Hash()
	}
	return hashes
}
