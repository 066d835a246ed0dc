package accounts

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
)

// MerchantAccounts reads accounts as they are stored, in the order of ids, and
// records that they were read. One that is gone is left out.
func (s *Store) MerchantAccounts(ctx context.Context, c rediskv.Caller, ids []string) (rows []jsontext.Value, err error) {
	k := s.db.Space(c.Organization)
	granted := s.db.CheckGrant(ctx, c, k)
	var failed error
	err = rediskv.EachHash(ctx, s.db, c, "read_accounts", ids, k.Object, func(id string, f rediskv.Fields) {
		row := jsontext.Value(f["json"])
		err := s.db.DamagedAt(ctx, k.Object(id), sameObject(f, "merchant_account", id))
		if d := tollgate.DamageOf(err); d != nil {
			row, err = json.Marshal(d)
			failed = cmp.Or(failed, err)
		}
		rows = append(rows, row)
	}, "json", rediskv.EnvelopeField)
	err = cmp.Or(err, failed)
	if granted(&err); err != nil {
		return nil, err
	}
	return rows, s.db.Audit(ctx, c, tollgate.AuditEntry{
		Type: "merchant_account.list", Outcome: "succeeded", Target: tollgate.AuditTarget{Type: "organization", ID: c.Organization},
	})
}
