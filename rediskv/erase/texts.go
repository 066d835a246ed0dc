package erase

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
)

// eventsAtOnce are rewritten together.
const eventsAtOnce = 100

// rewriteEvents writes the events of the payments anew.
func (e *erasing) rewriteEvents(ctx context.Context) error {
	slices.Sort(e.events)
	for some := range slices.Chunk(slices.Compact(e.events), eventsAtOnce) {
		found, err := e.Nearby(ctx, e.k, some)
		if err != nil {
			return err
		}
		var places []string
		for _, id := range some {
			m := found[id]
			if m == nil {
				if m, err = e.EventEntry(ctx, e.caller, id); err != nil {
					return err
				}
			}
			if m != nil { // else it was trimmed
				places = append(places, m.ID)
			}
		}
		if err := rewrite(ctx, e.DB, e.k.Events(), places, e.event); err != nil {
			return err
		}
	}
	return nil
}

// event is what an event becomes.
func (e *erasing) event(m redis.XMessage) (text, envelope string, ok bool, err error) {
	key, was := e.k.Events(), rediskv.Text(m, "b")
	if err := record.CheckEntry(key, m.Values); err != nil {
		return "", "", false, tollgate.Damage("event", rediskv.Text(m, "i"), err)
	}
	next, err := erased([]byte(was))
	if err != nil || string(next) == was {
		return "", "", false, err
	}
	envelope, err = record.Anew(key, m.Values, string(next))
	return string(next), envelope, true, err
}

// answers writes the answers anew that are remembered with Idempotency-Keys and show one of the
// payments. Those that can be made of the payment have nothing of it.
func (e *erasing) answers(ctx context.Context) error {
	return e.masters(ctx, e.k.Object("idem:*"), func(ctx context.Context, node redis.Cmdable, keys []string) error {
		texts := make([]*redis.StringCmd, len(keys))
		if err := e.Timed(ctx, "erase_answers", func(ctx context.Context) error {
			pipe := node.Pipeline()
			for i, key := range keys {
				texts[i] = pipe.Get(ctx, key)
			}
			return rediskv.Answered(pipe.Exec(ctx))
		}); err != nil {
			return err
		}
		for i, key := range keys {
			if err := e.answer(ctx, key, texts[i].Val()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *erasing) answer(ctx context.Context, key, text string) error {
	if !slices.ContainsFunc(payments.In(text), func(id string) bool { return e.of[id] }) {
		return nil
	}
	r, err := record.ReadRequest(text)
	if err != nil || r.Shown != "" {
		return err
	}
	body, err := erased(r.Body)
	if err != nil || bytes.Equal(body, r.Body) {
		return err
	}
	r.Body, r.Operation = body, record.OperationIn(r.Operation)
	next, _ := r.At(key, record.Plain)
	c := e.NewCommit(e.caller, nil)
	c.Still(text, "GET", key)
	c.Do("SET", key, next, "KEEPTTL")
	if _, err := c.Run(ctx); err != nil && !errors.Is(err, rediskv.ErrConflict) { // it has expired, or another run was faster
		return err
	}
	return nil
}

// nothing is what stands for a member of what is erased.
var nothing = map[string]string{"payee": "null", "reference": "null", "description": "null", "metadata": "{}"}

// erased is the JSON of an object without payee, reference, description and metadata, also
// within its members data and payment. All else stays as it is, byte for byte.
func erased(text []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var next []byte
	done := 0
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(d.InputOffset())
		start := end - len(value)
		instead, is := nothing[name]
		switch {
		case is:
		case (name == "data" || name == "payment") && value.Kind() == '{':
			within, err := erased(value)
			if err != nil {
				return nil, err
			}
			instead = string(within)
		default:
			continue
		}
		next = append(append(next, text[done:start]...), instead...)
		done = end
	}
	return append(next, text[done:]...), nil
}
