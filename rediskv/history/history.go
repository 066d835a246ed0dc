// Package history is the only one that knows what the log of a partition is known by,
// and what this process was told of it. Redis can go back: a failover, a restart from
// an older file, a volume put back by hand. What was acknowledged is then gone, and
// positions are given a second time. A history has a name so that nobody takes the
// second for the first: whatever was made within one names it.
package history

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv/record"
)

// Record is what a partition's log is known by: a hash, with its fields' names.
type Record struct {
	ID     string           // id: his_…
	First  string           // first: the partition's first, within which earlier releases wrote
	Began  tollgate.Instant // began
	Starts int64            // starts: how many processes have started on it
	Open   bool             // open is the id while anything may be written
	Past   []Past           // past: the histories before, the latest last
	Loss   *Loss            // lost: what is to be accepted; payouts wait for that
	loss   string           // as it is stored
}

// Past is a history that has ended. Lost is from when on what was written within it
// may be missing; 0: from its beginning on, or that is not known.
type Past struct {
	ID    string           `json:"id"`
	Began tollgate.Instant `json:"began"`
	Ended tollgate.Instant `json:"ended"`
	Lost  tollgate.Instant `json:"lost"`
}

// Why a history is thought to have lost something.
const (
	Behind     = "behind"     // Redis does not have what it acknowledged
	Empty      = "empty"      // it has nothing of the partition
	Unreadable = "unreadable" // its record cannot be read
	Token      = "token"      // an access token names more than it has
	Cursor     = "cursor"     // a cursor does
	ByHand     = "by hand"    // an operator says so
	ByRestore  = "restore"    // a copy was put back
)

// Loss is a finding: who found what, and from when on data may be missing.
type Loss struct {
	Reason       string           `json:"reason"`
	FoundAt      tollgate.Instant `json:"found_at"`
	Since        tollgate.Instant `json:"since"` // the last change that is still there; 0: not known
	Organization string           `json:"organization,omitempty"`
	Acknowledged int64            `json:"acknowledged,omitzero"` // the position that was acknowledged,
	Found        int64            `json:"found,omitzero"`        // and the one that is there
}

// pastKept is how many histories that have ended a record names.
const pastKept = 16

// RecordOf reads the fields of the record at a key. ok is false where they are not
// what was written.
func RecordOf(key string, f map[string]string) (r Record, ok bool) {
	f = record.Verified(key, f)
	r = Record{ID: f["id"], First: f["first"], loss: f["lost"], Open: f["open"] != "" && f["open"] == f["id"]}
	began, err := strconv.ParseInt(f["began"], 10, 64)
	starts, other := strconv.ParseInt(f["starts"], 10, 64)
	if !tollgate.ValidID(r.ID) || !tollgate.ValidID(r.First) || err != nil || other != nil || f[record.Field] == "" || record.Check(f[record.Field]) != nil {
		return Record{}, false
	}
	r.Began, r.Starts = tollgate.Instant(began), starts
	if text := f["past"]; text != "" && json.Unmarshal([]byte(text), &r.Past) != nil {
		return Record{}, false
	}
	if text := f["lost"]; text != "" && json.Unmarshal([]byte(text), &r.Loss) != nil {
		return Record{}, false
	}
	return r, true
}

// MissingFrom is from when on what was written within an earlier history may be
// missing; 0: that is not known, or it is none that the record names.
func (r *Record) MissingFrom(id string) (since tollgate.Instant) {
	first := slices.IndexFunc(r.Past, func(p Past) bool { return p.ID == id })
	if first < 0 {
		return 0
	}
	since = r.Past[first].Lost
	for _, p := range r.Past[first:] {
		since = min(since, p.Lost)
	}
	return since
}

// follows says whether a record comes after one that is known. Where it does not, that
// one was lost: a process that knew of nothing has begun anew, or an older record is there
// again. A history that has been closed is never opened again: another one begins. Nor is
// anything found of one that is open: it ends by that.
func (r *Record) follows(known *Record) bool {
	if r.ID == known.ID {
		return !r.Open || known.Open && (known.Loss != nil || r.Loss == nil)
	}
	return known.ID == "" || len(r.Past) >= pastKept || r.hasEnded(known.ID)
}

// hasEnded says whether a history is one of those before.
func (r *Record) hasEnded(id string) bool {
	return slices.ContainsFunc(r.Past, func(p Past) bool { return p.ID == id })
}

// ended is Past with the record's own history, which ends at a moment.
func (r *Record) ended(at, lost tollgate.Instant) []Past {
	past := append(slices.Clone(r.Past), Past{r.ID, r.Began, at, lost})
	return past[max(0, len(past)-pastKept):]
}
