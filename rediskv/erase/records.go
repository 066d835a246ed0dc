package erase

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

type (
	readRecordsKeys  struct{ Payment string }
	readRecordsArgs  struct{ Kinds string }
	eraseRecordsKeys struct{ Fence string }
	eraseRecordsArgs struct{ Kinds string }
)

var (
	scriptReadRecords  = script.NewRead[readRecordsKeys, readRecordsArgs](lua, "read_records")
	scriptEraseRecords = script.New[eraseRecordsKeys, eraseRecordsArgs](lua, "erase_records")
)

// stored is a record as it was read.
type stored struct {
	key    string
	hash   bool
	fields record.Fields // of a hash
	text   string        // of a string
	digest string
}

// payment erases what Redis has of one: until there is nothing left to do, as a transaction may
// come beside it meanwhile.
func (e *erasing) payment(ctx context.Context, id string) error {
	for {
		records, err := e.read(ctx, id)
		if err != nil {
			return err
		}
		if records == nil {
			return e.archived(ctx, id)
		}
		changed, err := e.erase(id, records)
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			return nil
		}
		if err := e.write(ctx, records, changed); err != nil && !errors.Is(err, rediskv.ErrConflict) {
			return err
		}
		e.step("written")
	}
}

// archived notes the events of a payment that the archive has, and what it was found by.
func (e *erasing) archived(ctx context.Context, id string) error {
	if e.archive == nil {
		return tollgate.NotFound()
	}
	found, err := e.archive.Payments(ctx, e.k, []string{id})
	of, _, _ := tollgate.NumberIn(id)
	r := found[of]
	if err != nil || r == nil {
		return err
	}
	if r.Err != nil {
		return r.Err
	}
	a, err := payments.ArchivedOf(e.k, id, r)
	if err != nil {
		return err
	}
	e.events = append(e.events, a.Ticket.EventIDs...)
	for i := range a.Transactions {
		e.was = append(e.was, ledger.Placed{Transaction: a.Transactions[i].Transaction, Position: a.Transactions[i].Position})
	}
	return nil
}

// read reads all records of a payment, at one moment; nil where Redis does not have it.
func (e *erasing) read(ctx context.Context, id string) (records []stored, err error) {
	var members []ledger.Indexed
	var found []rediskv.Fields
	if err := e.Timed(ctx, "erase_parts", func(ctx context.Context) error {
		pipe := e.Redis.Pipeline()
		asked := ledger.AskParts(ctx, pipe, e.k, id)
		_, err := pipe.Exec(ctx)
		members, found = asked()
		return err
	}); err != nil {
		return nil, err
	}
	records = []stored{{key: e.k.Object(id), hash: true}, {key: e.k.Object(tollgate.TicketOf(id))}}
	if found != nil {
		records = append(records, stored{key: e.k.Parts(id), hash: true})
	} else if records, err = e.apart(ctx, records, members); err != nil {
		return nil, err
	}
	kinds := ""
	for _, r := range records {
		kinds += map[bool]string{true: "h", false: "s"}[r.hash]
	}
	inv := scriptReadRecords.With(readRecordsKeys{records[0].key}, readRecordsArgs{kinds})
	for _, r := range records[1:] {
		inv.Keys = append(inv.Keys, r.key)
	}
	_, rest, err := e.Run(ctx, inv)
	if err != nil || len(rest) == 0 {
		return nil, err
	}
	for i, one := range rest {
		pair, _ := one.([]any)
		r := &records[i]
		if r.digest, _ = pair[1].(string); r.hash {
			r.fields = record.FieldsOf(pair[0])
		} else {
			r.text, _ = pair[0].(string)
		}
	}
	return slices.DeleteFunc(records, func(r stored) bool { return len(r.fields) == 0 && r.text == "" }), nil
}

// apart are the transactions and captures of a payment of an earlier release, which have keys
// of their own.
func (e *erasing) apart(ctx context.Context, records []stored, members []ledger.Indexed) ([]stored, error) {
	captures := make([]*redis.StringCmd, len(members))
	if err := e.Timed(ctx, "erase_parts", func(ctx context.Context) error {
		pipe := e.Redis.Pipeline()
		for i, m := range members {
			captures[i] = pipe.HGet(ctx, e.k.Object(m.ID), "cap")
		}
		if pipe.Len() == 0 {
			return nil
		}
		return rediskv.Answered(pipe.Exec(ctx))
	}); err != nil {
		return nil, err
	}
	for i, m := range members {
		records = append(records, stored{key: e.k.Object(m.ID), hash: true})
		capture := stored{key: e.k.Object(captures[i].Val())}
		if captures[i].Val() != "" && !slices.ContainsFunc(records, func(r stored) bool { return r.key == capture.key }) {
			records = append(records, capture)
		}
	}
	return records, nil
}

// erase is what changes of some records: by their number, the fields of a hash or a text.
func (e *erasing) erase(id string, records []stored) (changed map[int]stored, err error) {
	changed = map[int]stored{}
	at := e.at[id]
	for i, r := range records {
		next := r
		switch of := strings.TrimPrefix(r.key, e.k.Object("")); {
		case of == id:
			p, err := payments.PaymentOf(id, record.Verified(r.key, maps.Clone(r.fields)))
			if err != nil {
				return nil, err
			}
			if !p.Status.Terminal() {
				return nil, &tollgate.Error{Code: tollgate.CodePaymentStateInvalid, Message: "It is " + string(p.Status) + ": it can be erased once it is at an end."}
			}
			next.fields = erasedHash(r.key, r.fields, at, "payee", "ref", "desc", "meta")
		case of == tollgate.TicketOf(id):
			next.text, err = e.ticket(r, id, at)
		case strings.HasPrefix(of, tollgate.PrefixTransaction):
			err = e.transaction(of, record.Verified(r.key, maps.Clone(r.fields)))
			next.fields = erasedHash(r.key, r.fields, 0, "payee", "ref")
		case strings.HasPrefix(of, tollgate.PrefixCapture):
			next.text, err = capture(r.key, r.text)
		default:
			next.fields, err = e.parts(id, r.fields)
		}
		if err != nil {
			return nil, err
		}
		if next.text != r.text || !maps.Equal(next.fields, r.fields) {
			changed[i] = next
		}
	}
	return changed, nil
}

// erasedHash is a hash without some fields, with another checksum, as it was where it has none
// of them. What was folded is folded again.
func erasedHash(key string, f record.Fields, at tollgate.Instant, names ...string) record.Fields {
	if _, folded := f[record.FoldField]; folded {
		k := record.KindOf(key)
		all := record.Fields(k.Unfolded(f))
		next := erasedHash(key, all, at, names...)
		if maps.Equal(next, all) {
			return f
		}
		pairs := []any{k.Witness, next[k.Witness]}
		for _, name := range k.Folded {
			pairs = append(pairs, name, next[name])
			delete(next, name)
		}
		record.PutPieces(next, record.FoldField, string(k.Fold(pairs)))
		return next
	}
	next := maps.Clone(f)
	for _, name := range names {
		delete(next, name)
	}
	if maps.Equal(next, f) && (at == 0 || f[payments.ErasedField] != "") {
		return f
	}
	if at != 0 && next[payments.ErasedField] == "" {
		next[payments.ErasedField] = rediskv.Milli(at)
	}
	var pairs []any
	for name, value := range next {
		pairs = append(pairs, name, value)
	}
	next[record.Field] = record.Seal(key, pairs, nil)
	return next
}

// ticket is a ticket's text without its payee; the events that it lists are noted.
func (e *erasing) ticket(r stored, id string, at tollgate.Instant) (string, error) {
	if _, err := payments.TicketOf(e.k, tollgate.TicketOf(id), r.text); err != nil {
		return "", err
	}
	t := new(tollgate.Ticket) // as it is kept
	if err := record.DecodeAt(r.key, r.text, t); err != nil {
		return "", err
	}
	e.events = append(e.events, t.EventIDs...)
	if t.ErasedAt != 0 {
		return r.text, nil
	}
	payments.EraseTicket(t, at)
	return encoded(r.key, r.text, t)
}

// encoded is an object in the form that a text has.
func encoded(key, text string, object any) (string, error) {
	next, err := record.Text(key, object, record.FormOf(text))
	return string(next), err
}

func capture(key, text string) (string, error) {
	c := new(tollgate.Capture)
	if err := record.DecodeAt(key, text, c); err != nil {
		return "", tollgate.Damage("capture", key, err)
	}
	if c.Reference == nil && len(c.Metadata) == 0 {
		return text, nil
	}
	payments.EraseCapture(c)
	return encoded(key, text, c)
}

// transaction notes what a transaction was found by.
func (e *erasing) transaction(id string, f record.Fields) error {
	t, read := ledger.TransactionOf(id, f)
	if err := read.Err(); err != nil {
		return err
	}
	if t.Payee != nil || t.Reference != nil {
		e.was = append(e.was, ledger.Placed{Transaction: *t, Position: f.Int("pos")})
	}
	return nil
}

// parts are the parts of a payment without payees, references and metadata. The later
// transactions are written anew with the first one, of which they repeat what they were.
func (e *erasing) parts(id string, f record.Fields) (record.Fields, error) {
	of, _, _ := tollgate.NumberIn(id)
	next := maps.Clone(f)
	members, found := ledger.PartsIn(e.k, of, f)
	var repeated []string
	anew := false // the first one is
	for i, m := range members {
		if err := e.transaction(m.ID, maps.Clone(found[i])); err != nil {
			return nil, err
		}
		at := m.Place(e.k)
		kind, is := record.KindOf(at.As), erasedHash(at.As, found[i], 0, "payee", "ref")
		changed := !maps.Equal(is, found[i])
		if at.Name == tollgate.FirstNumber {
			repeated, anew = kind.Repeated(is), changed
		}
		if changed || anew && record.IsBehind(f[at.Name]) {
			form := record.FormShared(f[at.Name])
			for _, name := range kind.SharedNames(at.Name) {
				delete(next, name)
			}
			var pairs []any
			for name, value := range is {
				pairs = append(pairs, name, value)
			}
			shared := kind.Share(of, at.Name, pairs, form, repeated)
			for n := 0; n+1 < len(shared); n += 2 {
				name, _ := shared[n].(string)
				next[name] = textOf(shared[n+1])
			}
		}
		if found[i]["ty"] != string(tollgate.TransactionCapture) {
			continue
		}
		_, number, _ := tollgate.NumberIn(found[i]["cap"])
		r := ledger.Records{Parts: f}
		was := r.Part(number)
		text, err := capture(e.k.Object(found[i]["cap"]), was)
		if err != nil {
			return nil, err
		}
		if text != was {
			for _, name := range record.Pieces(number + rediskv.Document) {
				delete(next, name)
			}
			record.PutPieces(next, number+rediskv.Document, text)
		}
	}
	return next, nil
}

func textOf(value any) string {
	if b, is := value.([]byte); is {
		return string(b)
	}
	text, _ := value.(string)
	return text
}

// write writes records anew, if all are as they were read.
func (e *erasing) write(ctx context.Context, records []stored, changed map[int]stored) error {
	kinds := ""
	inv := scriptEraseRecords.With(eraseRecordsKeys{archive.FenceKey(e.k.Partition)}, eraseRecordsArgs{})
	for i, r := range records {
		if next, is := changed[i]; is {
			next.digest = r.digest
			r = next
		}
		inv.Keys = append(inv.Keys, r.key)
		inv.Args = append(inv.Args, r.digest)
		kinds += map[bool]string{true: "h", false: "s"}[r.hash]
		if !r.hash {
			inv.Group([]any{r.text})
			continue
		}
		var pairs []any
		for _, name := range slices.Sorted(maps.Keys(r.fields)) {
			pairs = append(pairs, name, r.fields[name])
		}
		inv.Group(pairs)
	}
	inv.Args[inv.Place(0)] = kinds
	_, _, err := e.Run(ctx, inv)
	return err
}
