package input

import (
	"net/http"
	"sort"
	"strings"
	"unicode/utf8"

	"tollgate"
	"tollgate/handlers/problem"
)

// maxFaults bounds an answer: a body of 64 KiB can hold thousands of faults.
const maxFaults = 50

// faults are what is wrong with one request, in the order in which the fields
// are documented.
type faults []*tollgate.Error

// Refuse notes a fault of a parameter, or between parameters.
func (f *faults) Refuse(e *tollgate.Error) {
	if len(*f) < maxFaults {
		*f = append(*f, e)
	}
}

func (f *faults) unknown(param string) {
	f.Refuse(&tollgate.Error{Code: tollgate.CodeParameterUnknown, Param: Shortened(param), Message: "This request has no such parameter."})
}

// wrong notes what is wrong with a parameter, such as "is a date".
func (f *faults) wrong(param, how string) { f.Refuse(tollgate.Invalid(param, "%s %s.", param, how)) }

func (f *faults) missing(param string) {
	f.Refuse(&tollgate.Error{Code: tollgate.CodeParameterMissing, Param: param, Message: param + " is missing."})
}

// Err is nil without faults. The first one gives code, param and message;
// those of form (400) come before those of meaning (422).
func (f faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	sort.SliceStable(f, func(i, j int) bool { return grave(f[i]) < grave(f[j]) })
	e := *f[0]
	if len(f) > 1 {
		for _, one := range f {
			e.Details = append(e.Details, tollgate.Detail{Param: one.Param, Code: one.Code, Message: one.Message})
		}
	}
	return &e
}

func grave(e *tollgate.Error) int {
	if problem.StatusOf(e.Code) == http.StatusBadRequest {
		return 0
	}
	return 1
}

// Shortened makes a client's text fit to be named in an answer.
func Shortened(s string) string {
	const most = 100
	s = strings.ToValidUTF8(s, "\ufffd")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
