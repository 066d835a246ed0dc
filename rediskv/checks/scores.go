package checks

import "tollgate/rediskv/checks/look"

// entry is one of an index of transactions, or of deliveries.
type entry = look.Entry

// place is a score as a decimal number, which Redis reads as exactly that score.
func place(score float64) string { return look.Place(score) }
