package payments

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// shownOf is what is remembered of an answer that shows a payment as a change makes it, or
// the capture or refund with it. All that never changes is kept with the payment, so it is a
// line with the version of the JSON (package bodies), the checksum of the body, the payment
// and the prefix and number of the part; then the fields that change, in the order of the
// payment's table.
func shownOf(ch *tollgate.PaymentChange, body []byte) string {
	prefix, number := "", ""
	switch ch.Action {
	case "capture":
		prefix = " " + tollgate.PrefixCapture
		_, number, _ = tollgate.NumberIn(ch.Capture.ID)
	case "refund":
		prefix = " " + tollgate.PrefixRefund
		_, number, _ = tollgate.NumberIn(ch.Refund.ID)
	}
	fields := strings.Join(paymentTable.Changing(ch.Payment), "\n")
	return bodies.Version + " " + record.Sum(body) + " " + ch.Payment.ID + prefix + number + "\n" + fields
}

// shownPayment is the payment that a remembered answer shows, if it is one of shownOf.
func shownPayment(shown string) (id string, ok bool) {
	head := strings.Fields(shown)
	if len(head) < 3 || !tollgate.ValidID(head[2]) {
		return "", false
	}
	return head[2], strings.HasPrefix(head[2], tollgate.PrefixPayment)
}

// errShown is of an answer that cannot be made again.
var errShown = errors.New("the answer is not what was given")

// Shown makes an answer again of what was remembered of it: the same bytes as then, as
// long as the JSON has the same version; and the payment as it was then.
func (s *Store) Shown(ctx context.Context, c rediskv.Caller, shown string) (body []byte, p *tollgate.Payment, err error) {
	head, fields, _ := strings.Cut(shown, "\n")
	part := strings.Split(head+" ", " ") // version, checksum, payment, part
	id, ok := shownPayment(shown)
	if !ok || len(part) < 4 {
		return nil, nil, errShown
	}
	k := s.db.Space(c.Organization)
	prefix, number := part[3], ""
	if at := strings.IndexByte(prefix, '_') + 1; at > 0 {
		prefix, number = prefix[:at], prefix[at:]
	}
	var hash *redis.MapStringStringCmd
	var document *ledger.Document
	if err = s.db.Timed(ctx, "read_shown", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		hash, document = pipe.HGetAll(ctx, k.Object(id)), ledger.AskPart(ctx, pipe, k.Parts(id), number)
		return rediskv.Answered(pipe.Exec(ctx))
	}); err != nil {
		return nil, nil, err
	}
	hashed, text := rediskv.Fields(record.Verified(k.Object(id), hash.Val())), document.Val()
	if len(hashed) == 0 {
		r, err := s.ledger.ArchivedPayment(ctx, k, id)
		if err != nil {
			return nil, nil, err
		}
		if r != nil {
			hashed, text = r.Payment, r.Part(number)
		}
	}
	if p, err = PaymentOf(id, hashed); err != nil {
		return nil, nil, s.db.Noticed(ctx, k, err)
	}
	then := record.FieldsOf([]any(paymentTable.Pairs(p, true)))
	paymentTable.Change(then, strings.Split(fields, "\n"))
	if p, err = PaymentOf(id, then); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errShown, err)
	}
	if prefix == "" {
		return shownAs(p, p, part)
	}
	at := tollgate.PartID(prefix, p.UpdatedAt, sharedBy(id), number)
	var object any
	switch prefix {
	case tollgate.PrefixCapture:
		one := &tollgate.Capture{}
		err, object = record.DecodeAt(k.Object(at), text, one), one
		one.Payment = p
	case tollgate.PrefixRefund:
		one := &tollgate.Refund{}
		err, object = record.DecodeAt(k.Object(at), text, one), one
		one.Payment = p
	default:
		err = errShown
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", errShown, at, err)
	}
	return shownAs(object, p, part)
}

// shownAs is the body that shows an object; of the same version it has the checksum.
func shownAs(object any, p *tollgate.Payment, head []string) ([]byte, *tollgate.Payment, error) {
	body, err := bodies.Of(object)
	if err == nil && head[0] == bodies.Version && head[1] != record.Sum(body) {
		err = errShown
	}
	return body, p, err
}

// sharedBy is what all identifiers of a payment's parts share.
func sharedBy(payment string) string {
	of, _, _ := tollgate.NumberIn(payment)
	return of
}

// In are the payments that the answer in the record of a request names: what was made, or
// what it was made of. A refusal names none that must be there.
func In(text string) (ids []string) {
	r, err := record.ReadRequest(text)
	if err != nil || r.Status/100 != 2 {
		return nil
	}
	if id, ok := shownPayment(r.Shown); ok {
		return []string{id}
	}
	var body struct {
		ID        string `json:"id"`
		PaymentID string `json:"payment_id"`
	}
	_ = json.Unmarshal(r.Body, &body) // one that is sealed names nothing
	for _, id := range []string{body.ID, body.PaymentID} {
		if strings.HasPrefix(id, tollgate.PrefixPayment) && tollgate.ValidID(id) {
			ids = append(ids, id)
		}
	}
	return ids
}
