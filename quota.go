package tollgate

import "fmt"

// What an organization may keep (interface §11). Redis is finite, and what one
// organization fills it with is missing for the payments of all. What is stored
// already stays usable, whatever its number.
const (
	MaxRuleNames         = 200
	MaxRuleVersions      = 100 // of one name
	MaxWebhooks          = 50
	MaxPerimeterVersions = 1000
	MaxExports           = 10 // that are not finished
	MaxShadows           = 5  // at once
	maxMetadata          = 8 << 10
)

// quotaExceeded is a CodeQuotaExceeded error; param is the parameter at fault or,
// where none is, what there would be too many of.
func quotaExceeded(param, format string, args ...any) *Error {
	return &Error{Code: CodeQuotaExceeded, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Quotas are an organization's counts of what nothing else counts.
type Quotas struct {
	Rules      int64 // names of rules
	Perimeters int64 // versions of perimeters
	Revision   int64 // 0: they are not kept yet, and were counted
}
