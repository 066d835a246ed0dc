package rediskv

import "tollgate/rediskv/record"

// What records are read and written with (package record).
const (
	Envelope      = record.Format
	EnvelopeField = record.Field
)

// Fields, Pairs and Stored are theirs.
type (
	Fields = record.Fields
	Pairs  = record.Pairs
	Stored = record.Stored
)
