package rediskv

// ScriptHashes are the scripts that the Store opens with, by name.
func ScriptHashes() map[string]string {
	hashes := map[string]string{}
	for _, s := range allScripts {
		hashes[s.Name] = s.Hash()
	}
	return hashes
}
