package history

import "errors"

// Restoring is the field of rediskv.MetaKey that has the id of a copy while it is being put
// into this Redis. The number of partitions is then NoPartitions, which keeps away
// earlier releases as well: they refuse what is no number.
const (
	Restoring    = "restoring"
	NoPartitions = "a copy is being restored"
)

// ErrRestoring: what is in this Redis is not complete yet.
var ErrRestoring = errors.New("a copy is being restored into this Redis")
