package accounts

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// MerchantAccounts reads accounts as they are stored, in the order of ids, and
// records that they were read. One that is gone is left out.
func (s *Store) MerchantAccounts(ctx context.Context, c rediskv.Caller, ids []string) (rows []jsontext.Value, err error) {
	k := s.db.Space(c.Organization)
	if err := s.db.CheckGrant(ctx, c, k); err != nil {
		return nil, err
	}
	err = s.db.TimedInTurn(ctx, c, "read_accounts", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		replies := make([]*redis.SliceCmd, len(ids))
		for i, id := range ids {
			replies[i] = pipe.HMGet(ctx, k.Object(id), "json", rediskv.EnvelopeField)
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for i, r := range replies {
			f := rediskv.FieldsIn(r.Val(), "json", rediskv.EnvelopeField)
			row := jsontext.Value(f["json"])
			err := s.db.DamagedAt(ctx, k.Object(ids[i]), rediskv.SameObject(f, "merchant_account", ids[i]))
			if d := tollgate.DamageOf(err); d != nil {
				if row, err = json.Marshal(d); err != nil {
					return err
				}
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, s.db.Audit(ctx, c, tollgate.AuditEntry{
		Type: "merchant_account.list", Outcome: "succeeded", Target: tollgate.AuditTarget{Type: "organization", ID: c.Organization},
	})
}
