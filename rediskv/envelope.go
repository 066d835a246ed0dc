package rediskv

import (
	"tollgate/rediskv/record"
)

// The envelope of a record (package record): where a hash and an entry of a log have
// it, and what it is before the store has put a checksum in.
const (
	Envelope      = record.Format
	EnvelopeField = record.Field
)

// Document reads the document of a hash, and pairs of JSON text and target.
func (f Fields) Document(into any, more ...any) error {
	if err := record.Check(f[EnvelopeField]); err != nil {
		return err
	}
	return Decode(f["json"], into, more...)
}

// Sealed puts the envelope of a hash into the fields that it is written with. All
// that its checksum covers is among them, or beside them, as it is.
func (p Pairs) Sealed(key string, beside Fields) Pairs {
	for i := 0; i+1 < len(p); i += 2 {
		if p[i] == EnvelopeField {
			p[i+1] = record.Seal(key, p, beside)
		}
	}
	return p
}
