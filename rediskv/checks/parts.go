package checks

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// checkParts looks at hashes of the parts of payments, by what follows the organization in
// their keys: each transaction can be read and is in the list of its status, each capture or
// refund is one of them and what was written, and the payment is there.
func (w *walk) checkParts(ctx context.Context, names []string) ([][]Finding, error) {
	hashes := make([]*redis.MapStringStringCmd, len(names))
	if err := w.Pipelined(ctx, "parts", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, name := range names {
			hashes[i] = pipe.HGetAll(ctx, w.K.Object(name))
		}
	}); err != nil {
		return nil, err
	}
	members, found := make([][]ledger.Indexed, len(names)), make([][]rediskv.Fields, len(names))
	places := make([][]*redis.FloatCmd, len(names))
	payments := make([]*redis.IntCmd, len(names))
	if err := w.Pipelined(ctx, "parts", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, name := range names {
			members[i], found[i] = ledger.PartsIn(w.K, strings.TrimPrefix(name, "parts:"), hashes[i].Val())
			for n, m := range members[i] {
				places[i] = append(places[i], pipe.ZScore(ctx, w.K.TransactionsIn(found[i][n]["st"]), m.Member()))
				if id := found[i][n]["pay"]; id != "" && payments[i] == nil {
					payments[i] = pipe.Exists(ctx, w.K.Object(id))
				}
			}
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(names))
	for i := range names {
		for n, m := range members[i] {
			f := found[i][n]
			if _, stored := ledger.TransactionOf(m.ID, f); stored.Err() != nil {
				findings[i] = append(findings[i], plain(consistency.FoundDamage(stored.Err()))...)
			} else if places[i][n].Err() != nil {
				findings[i] = append(findings[i], w.misplaced(w.K.TransactionsIn(f["st"]), listOf(f["st"]), m.Member(), f, ""))
			}
		}
		findings[i] = append(findings[i], w.checkDocuments(hashes[i].Val(), members[i], found[i])...)
		if payments[i] != nil && payments[i].Val() == 0 {
			id := found[i][0]["pay"]
			findings[i] = append(findings[i], plain([]consistency.Finding{consistency.Found(consistency.FindingPayment, "payment", id, "its transactions are there, and it is not")})...)
		}
	}
	return findings, nil
}

// checkDocuments compares the captures and refunds of a payment's parts with their checksums.
func (w *walk) checkDocuments(hash map[string]string, members []ledger.Indexed, found []rediskv.Fields) (findings []Finding) {
	of := map[string]rediskv.Fields{}
	for n, m := range members {
		of[m.Place(w.K).Name+rediskv.Document] = found[n]
	}
	for field, text := range record.Whole(hash) {
		if !strings.HasSuffix(field, rediskv.Document) {
			continue
		}
		object, id := "capture", of[field]["cap"]
		if refund := of[field]["rfd"]; refund != "" {
			object, id = "refund", refund
		}
		switch {
		case id == "":
			findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingDamaged, "payment", payment(found), "its part %s is of no transaction", field)})...)
		case record.CheckText(w.K.Object(id), text) != nil:
			findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingDamaged, object, id, "its checksum is another one")})...)
		}
	}
	return findings
}

// payment is whose some transactions are.
func payment(found []rediskv.Fields) string {
	for _, f := range found {
		if f["pay"] != "" {
			return f["pay"]
		}
	}
	return ""
}
