package rediskv

// DefaultExportBytes is what the export files of one organization may take up
// of Redis' memory, compressed as they lie there, with their previews.
const DefaultExportBytes = 256 << 20
