package bodies

import (
	"bytes"

	"tollgate"
)

// Event is an event's JSON around the place of its sequence number and history, which
// only the script that commits it knows. Its data is written as tollgate.NewEvent has made
// it.
func Event(e *tollgate.Event) (head, tail []byte, err error) {
	bare := *e
	bare.Data = nil
	head, tail, err = split(&bare, `"sequence":`, `0,"history_id":null`)
	if err == nil && e.Data != nil {
		tail = append(append(tail[:len(tail)-len(null+"}")], e.Data...), '}')
	}
	return head, tail, err
}

// Audit is an audit entry's JSON around the place of its sequence number.
func Audit(e *tollgate.AuditEntry) (head, tail []byte, err error) { return split(e, `"seq":`, `0`) }

// split cuts an object where a member has a value. What stands before it must be
// controlled text.
func split(v any, member, value string) (head, tail []byte, err error) {
	text, err := Of(v)
	if err != nil {
		return nil, nil, err
	}
	at := bytes.Index(text, []byte(member+value+",")) + len(member)
	return text[:at:at], text[at+len(value):], nil
}
