package postings

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// form is raised when values are hashed or written in another way: then all lists are
// made again.
const form = 2

// formCold is that of a State with lists in an archive, of which earlier releases know nothing.
const formCold = 3

// State says how far an organization's transactions are posted.
type State struct {
	Form int   `json:"form"`
	Upto int64 `json:"upto"` // the number of the last event whose transactions are posted
	// Between which moments, Unix milliseconds, the transactions of the last span of events
	// were made that is not complete.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Stale says that all lists are to be removed and made again. Nothing is posted
	// before that is done.
	Stale bool `json:"stale,omitzero"`
	// Settled counts how often postings were put between others or taken out.
	Settled int64 `json:"settled,omitzero"`
	// Cold is the last event whose postings are to be read in the archive, and Dropped the
	// last one whose postings Redis certainly has no more.
	Cold    int64 `json:"cold,omitzero"`
	Dropped int64 `json:"dropped,omitzero"`

	text string // as it was read
}

// StateKey is a string, the JSON of the State. timesKey has, for each span of events, when the first
// and the last of their transactions were made: twice Unix milliseconds in 8 bytes.
func StateKey(k rediskv.Space) string { return k.Object("postings") }

func timesKey(k rediskv.Space) string { return k.Object("postings:times") }

const (
	spanEvents = 512
	spanSize   = 16
)

// State reads how far an organization is.
func (s *Store) State(ctx context.Context, k rediskv.Space) (st State, err error) {
	text := ""
	err = s.db.Timed(ctx, "postings", func(ctx context.Context) (err error) {
		if text, err = s.db.Redis.Get(ctx, StateKey(k)).Result(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return StateOf(k, text), err
}

// StateOf reads what is at StateKey. One that cannot be read is to be made again: nothing
// is lost with it.
func StateOf(k rediskv.Space, text string) (st State) {
	if text == "" {
		return State{}
	}
	document, err := record.Opened(StateKey(k), text)
	if err == nil {
		err = json.Unmarshal([]byte(document), &st)
	}
	if err != nil || st.Upto < 0 || st.Form < form {
		st = State{Form: form, Stale: true}
	}
	st.text = text
	return st
}

// Usable says whether a search can read the lists.
func (st *State) Usable() bool { return st.Upto > 0 && !st.Stale && !st.Foreign() }

// Foreign says that the lists are of a later release, which alone goes on with them.
func (st *State) Foreign() bool { return st.Form > formCold }

// Between are the first and the last event, up to State.Upto, that may have a transaction
// which was made after one moment and before another (0: any); none if first > last.
func (s *Store) Between(ctx context.Context, k rediskv.Space, st State, after, before tollgate.Instant) (first, last int64, err error) {
	if after == 0 && before == 0 {
		return 0, st.Upto, nil
	}
	text := ""
	if err := s.db.Timed(ctx, "posting_times", func(ctx context.Context) (err error) {
		text, err = s.db.Redis.GetRange(ctx, timesKey(k), 0, -1).Result()
		return err
	}); err != nil {
		return 0, 0, err
	}
	text = text[:min(int64(len(text)), st.Upto/spanEvents*spanSize)] + string(appendSpan(nil, tollgate.Instant(st.First), tollgate.Instant(st.Last)))
	if int64(len(text)) != (st.Upto/spanEvents+1)*spanSize {
		return 0, st.Upto, nil // a check says that it is too short
	}
	first, last = math.MaxInt64, 0
	for span := int64(0); len(text) >= spanSize; span, text = span+1, text[spanSize:] {
		from, to := spanIn([]byte(text))
		if to == 0 || to <= after || (before != 0 && from >= before) {
			continue
		}
		first, last = min(first, span*spanEvents), max(last, span*spanEvents+spanEvents-1)
	}
	if first > last {
		return 1, 0, nil
	}
	return first, min(last, st.Upto), nil
}

func spanIn(text []byte) (first, last tollgate.Instant) {
	return tollgate.Instant(binary.BigEndian.Uint64(text)), tollgate.Instant(binary.BigEndian.Uint64(text[spanSize/2:]))
}

func appendSpan(to []byte, first, last tollgate.Instant) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(to, uint64(first)), uint64(last))
}
